"""A corpus small enough to learn in seconds, the settings of a run on it, and what such a run has written."""

import json
import random
from pathlib import Path
from typing import Any

WORDS = {
    "one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs",
    "seven": "sieben", "eight": "acht", "nine": "neun", "ten": "zehn",
}  # fmt: skip


def write_corpus(folder: Path, name: str, count: int, seed: int) -> None:
    """`count` pairs: counting words, and the same in German backwards."""
    random_ = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = random_.choices(list(WORDS), k=random_.randint(1, 6))
        pairs.append((" ".join(words), " ".join(WORDS[word] for word in reversed(words))))
    folder.mkdir(parents=True, exist_ok=True)
    for side, suffix in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")


def config_text(corpus: Path, run: Path) -> str:
    """The YAML of a tiny run on the tiny corpus."""
    return f"""
run_dir: {run}
data:
  source_language: en
  target_language: de
  train: [{{source: {corpus}/train.en, target: {corpus}/train.de}}]
  validation: {{source: {corpus}/validation.en, target: {corpus}/validation.de}}
  store_dir: {corpus}/store
vocabulary: {{size: 300}}
model: {{d_model: 32, feed_forward: 64, layers: 1, heads: 2, dropout: 0.1}}
training:
  batch_tokens: 512
  max_steps: 20
  schedule: inverse_sqrt
  learning_rate: 0.01
  warmup_steps: 10
  validate_every: 10
  checkpoint_every: 5
  log_every: 4
decoding: {{beam_size: 2}}
"""


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON objects, one a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def rows_without_clock(run: Path) -> list[dict[str, float]]:
    """The rows of a run's metrics without what depends on the clock."""
    clock = {"seconds", "target_tokens_per_second", "tflops", "data_wait"}
    return [{k: value for k, value in row.items() if k not in clock} for row in rows_of(run / "metrics.jsonl")]


def logged_rows(run: Path) -> int:
    """How many rows a run's metrics have so far. The file may not exist yet, or be removed by a run that starts again
    because it was killed before its first state."""
    try:
        return (run / "metrics.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0
