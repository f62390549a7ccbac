"""CTranslate2's models: written, and used for search."""
