"""The page of `nmt inspect`: attention, word alignment, beam search and positions of a model."""
