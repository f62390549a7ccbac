"""Writes the demo's corpus with other sizes than `nmt init --preset demo`, see nmt/commands/demo_corpus.py.

make_demo_corpus.py OUTPUT_DIR [--train 40000] [--validation 500] [--test 500] [--seed 1] [--sentences 1]
"""

import argparse
from pathlib import Path

from nmt.commands.demo_corpus import SIZES, write
from nmt.errors import NmtError


def main() -> None:
    parser = argparse.ArgumentParser(description="Write an English-German corpus from a grammar.")
    parser.add_argument("folder", metavar="OUTPUT_DIR", type=Path)
    for name, default in {**SIZES, "seed": 1, "sentences": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N")
    arguments = parser.parse_args()
    sizes = {split: getattr(arguments, split) for split in SIZES}
    if not all(1 <= size <= 1_000_000 for size in sizes.values()) or not 1 <= arguments.sentences <= 20:
        parser.exit(2, f"{parser.prog}: error: sizes must be from 1 to 1000000, --sentences from 1 to 20\n")
    try:
        write(arguments.folder, sizes, arguments.seed, arguments.sentences)
    except NmtError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    parser.exit(0, f"{parser.prog}: wrote {' + '.join(map(str, sizes.values()))} pairs to {arguments.folder}\n")


if __name__ == "__main__":
    main()
