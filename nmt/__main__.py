"""`python -m nmt`: the commands, where a launcher such as `torchrun -m nmt` wants a module."""

from nmt.cli.app import main

if __name__ == "__main__":
    main()
