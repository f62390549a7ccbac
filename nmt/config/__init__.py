"""Settings: declared, read and checked."""
