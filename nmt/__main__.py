"""The command `nmt`, also as a module: `python -m nmt`, or `torchrun -m nmt`."""

import sys


def main() -> None:
    """The console script. Ctrl-C ends it with status 130, also while modules are imported."""
    try:
        from nmt.errors import NmtError

        try:
            from nmt.cli import app
        except NmtError as error:  # nmt does not run here
            sys.exit(f"error: {error}")
        app.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
