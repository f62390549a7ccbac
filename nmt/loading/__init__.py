"""Opens a model file, a run or an exported folder, and chooses the engine."""
