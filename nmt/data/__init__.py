"""Text to batches of ids."""
