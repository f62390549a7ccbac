"""The one exception that a user is meant to see."""


class NmtError(Exception):
    """What the user can mend: its message names the file, line or key, the value and the mend.

    The commands print the message without a traceback and exit with status 1. Anything else that
    escapes is a defect of ours and keeps its traceback.
    """
