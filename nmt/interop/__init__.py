"""Imports models of other programs, and exports models for them."""
