"""A translator over HTTP."""
