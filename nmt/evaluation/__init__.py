"""How good translations are: scores, how sure they are, where they are low, and what one system does otherwise."""
