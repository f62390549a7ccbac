"""The output of a run: model files, the run folder, and averages of checkpoints."""
