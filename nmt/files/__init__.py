"""Reading and writing files. A file appears only when it is complete."""
