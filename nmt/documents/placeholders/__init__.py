"""Parts of strings that are not translated: codes, arguments, and the syntax of messages."""
