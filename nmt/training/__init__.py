"""Batches and a model to checkpoints."""
