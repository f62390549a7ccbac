"""Searching: scores of the next token to whole outputs."""
