"""Ids to scores."""
