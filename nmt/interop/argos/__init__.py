"""Packages for Argos Translate and LibreTranslate."""
