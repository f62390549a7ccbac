"""Prepared data → one page that shows what it is and what was done to it."""
