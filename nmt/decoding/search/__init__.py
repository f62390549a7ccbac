"""Search: from scores of the next token to complete outputs."""
