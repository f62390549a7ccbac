"""Stored ids to batches."""
