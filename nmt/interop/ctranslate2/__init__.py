"""Writes models for CTranslate2, and searches with them."""
