"""Which pairs are kept, and what the text is like."""
