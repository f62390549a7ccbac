"""Tags and protected text in lines and in their translations."""
