"""Glossaries: source terms with their prescribed translations."""
