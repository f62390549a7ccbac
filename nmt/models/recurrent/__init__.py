"""The recurrent encoder-decoder: its cells, its attention and the model."""
