"""Run by an interpreter that has argostranslate: installs a package in an empty home and translates lines with it.

python argos_translate.py PACKAGE FROM TO HOME [as-one] <lines >translations. as-one: each line is one sentence;
otherwise sentences are found by the splitter in the package.
"""

import os
import sys
from pathlib import Path


def main(package: str, from_code: str, to_code: str, home: str, *as_one: str) -> None:
    for name, folder in (
        ("HOME", ""),
        ("XDG_DATA_HOME", "data"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
    ):
        os.environ[name] = str(Path(home, folder))
    import argostranslate.package  # makes folders there
    import argostranslate.translate

    argostranslate.package.install_from_path(Path(package))
    translation = argostranslate.translate.get_translation_from_codes(from_code, to_code)
    if as_one:
        translation.underlying.sentencizer.split_sentences = lambda text: [text]
    for line in sys.stdin.read().split("\n")[:-1]:
        print(translation.translate(line).replace("\n", " "))


if __name__ == "__main__":
    main(*sys.argv[1:])
