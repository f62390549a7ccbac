"""Text inside documents."""
