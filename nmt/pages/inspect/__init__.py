"""Shows the attention, word alignment, beam search and positions of a model."""
