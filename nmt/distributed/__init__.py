"""Training and translation with several processes."""
