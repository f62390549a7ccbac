"""Marian's models: its own .npz, and MarianMT folders of transformers."""
