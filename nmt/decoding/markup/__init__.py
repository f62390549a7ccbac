"""Tags, and text that must stay as it is, in what is translated."""
