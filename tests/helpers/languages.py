"""Counting in three languages: pairs that a tiny model learns in seconds, in a model of three directions."""

import random
from pathlib import Path

from helpers.runs import WORDS, config_text

FRENCH = dict(zip(WORDS, ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"], strict=True))
SPELLED = {"en": {word: word for word in WORDS}, "de": WORDS, "fr": FRENCH}


def write_counting(folder: Path, name: str, count: int, seed: int, longest: int = 3) -> None:
    """Texts `name.en`, `name.de` and `name.fr` of `count` lines of at most `longest` words, which are translations of
    each other."""
    chance = random.Random(seed)
    lines = [chance.choices(list(WORDS), k=chance.randint(1, longest)) for _ in range(count)]
    folder.mkdir(parents=True, exist_ok=True)
    for language, spelled in SPELLED.items():
        text = "".join(" ".join(spelled[word] for word in line) + "\n" for line in lines)
        (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def three_directions(folder: Path, name: str) -> str:
    """The corpora `en`→`de`, `de`→`en` and `en`→`fr` as a list in YAML."""
    first = f"source: {folder}/{name}.en, target: {folder}/{name}"
    return f"[{{{first}.de}}, {{{first}.de, reversed: true}}, {{{first}.fr, languages: [en, fr]}}]"


def counting_config(folder: Path, run: Path) -> str:
    """The YAML of a run in three directions, on texts `train` and `validation` of `write_counting`."""
    text = config_text(folder, run)
    train, validation = (
        f"  {key}: {three_directions(folder, name)}\n"
        for key, name in (("train", "train"), ("validation", "validation"))
    )
    lines = [line for line in text.split("\n") if not line.startswith(("  train: ", "  validation: "))]
    return "\n".join(lines).replace(
        "  target_language: de\n", f"  target_language: de\n{train}{validation}  validation_in_training: warn\n"
    )
