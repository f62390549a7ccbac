"""Exports a model for other engines, and checks that they translate as the model does."""
