"""Runs' folders → one page that shows how they went."""
