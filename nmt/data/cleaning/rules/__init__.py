"""Rules that find pairs which are not a sentence and its translation."""
