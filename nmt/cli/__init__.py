"""The command line: declares the options of commands, and calls them."""
