"""HTML pages and their pictures."""
