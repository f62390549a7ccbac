"""Selection of pairs, and statistics of the text."""
