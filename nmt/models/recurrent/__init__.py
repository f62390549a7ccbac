"""The recurrent encoder-decoder: cells, attention, model."""
