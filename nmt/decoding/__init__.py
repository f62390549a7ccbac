"""Decoding: from text to translations with a model."""
