"""A model file to the folders of other engines, and the proof that they translate as we do."""
