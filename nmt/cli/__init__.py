"""The command line: options are declared, nothing is computed."""
