"""What a run leaves: model files, their folder, their averages, and exported folders."""
