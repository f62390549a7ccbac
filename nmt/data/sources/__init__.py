"""Corpora as pairs of lines: text files, tables, translation memories, and collections by name."""
