"""Corpora with a fault of each kind, for the page of `nmt prepare --report`."""

import json
from pathlib import Path
from typing import Any

from nmt.config import schema
from nmt.config.schema import Config, Corpus, DataConfig

HOSTILE = "</script><b>a</b> \x07\x9b \u202eb <!-- ☃"
GOOD = [
    (f"one two three {word}", f"eins zwei drei {word}ung") for word in ["alpha", "beta", "gamma", "delta", "epsilon"]
]
FIRST = [
    *GOOD,
    ("", "ohne Quelle"),
    ("a line", "a line"),  # dropped as a copy
    GOOD[0],  # dropped as a duplicate
    ("see <a href='x'>this</a> page", "siehe <a href='x'>diese</a> Seite"),  # HTML
    ("one " * 90, "eins " * 90),  # too long
    ("one", "eins zwei drei vier fünf sechs sieben acht neun zehn"),  # too different in length
    (HOSTILE, f"{HOSTILE} 中"),
]
HELD_OUT = [GOOD[0], GOOD[1], ("one two three gamma", "ganz anders"), ("new", "neu")]


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> Corpus:
    """A file of these pairs."""
    path = folder / f"{name}.jsonl"
    rows = ({"source": source, "target": target} for source, target in pairs)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return Corpus(file=str(path))


def config_of(folder: Path, *corpora: Corpus, size: int = 300, **data: Any) -> Config:
    """The settings of a run on these corpora, with HELD_OUT for validation. size: of the vocabulary; data: settings."""
    text = DataConfig("en", "de", corpora, validation=write(folder, "held-out", HELD_OUT), **data)
    subwords = schema.VocabularyConfig(size=size, character_coverage=1.0)
    return Config(run_dir=str(folder / "run"), data=text, vocabulary=subwords)
