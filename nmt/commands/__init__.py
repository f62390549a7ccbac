"""The work of each command: the steps and their order."""
