"""What stays as it is inside the strings of documents."""
