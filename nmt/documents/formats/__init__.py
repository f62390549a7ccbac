"""A file for each format of documents."""
