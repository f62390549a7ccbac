"""A model and source ids to hypotheses."""
