"""The command `nmt`, also as a module: `python -m nmt`, or `torchrun -m nmt`."""

import sys


def main() -> None:
    """The console script. After Ctrl-C while the commands are being imported, it ends with status 130, as later."""
    try:
        from nmt.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    app.main()


if __name__ == "__main__":
    main()
