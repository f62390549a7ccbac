"""Ids to scores: the Transformer."""
