"""The commands as a module: `python -m nmt`, or `torchrun -m nmt`."""

from nmt.cli.app import main

if __name__ == "__main__":
    main()
