"""Models for Firefox and TranslateLocally."""
