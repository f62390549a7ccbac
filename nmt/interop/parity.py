"""Compares the translations of another program with nmt's, on a few lines, by greedy search."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import DecodingConfig
from nmt.data.prepare import read_validation
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import Engine
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.files.table import table
from nmt.interop.sample_text import ENGLISH, LINES

_MOST_LINES = 50
_MOST_CHARACTERS = 100  # of a line that are shown


@dataclass(frozen=True)
class Parity:
    """The translations of the same lines by nmt and by another program. Spaces at both ends of a line are ignored."""

    program: str
    nmt_lines: Sequence[str]
    program_lines: Sequence[str]

    @property
    def different(self) -> list[int]:
        """The indices of the lines that are translated differently."""
        pairs = zip(self.nmt_lines, self.program_lines, strict=True)
        return [i for i, (nmt_line, program_line) in enumerate(pairs) if nmt_line.strip() != program_line.strip()]

    def __str__(self) -> str:
        """The number of equal lines, and where the first different line begins to differ."""
        total, different = len(self.nmt_lines), self.different
        equal = total - len(different)
        counts = f"greedy search: {equal} of {total} lines have the same translation in nmt and {self.program}"
        if not different:
            return counts
        nmt_line, program_line = self.nmt_lines[different[0]], self.program_lines[different[0]]
        start = 0
        while nmt_line[start : start + 1] == program_line[start : start + 1]:
            start += 1
        end = start + _MOST_CHARACTERS
        rows = [["  nmt", nmt_line[start:end]], [f"  {self.program}", program_line[start:end]]]
        where = f"line {different[0] + 1} differs at character {start + 1}:"
        lines = [counts, where, table(rows, left=(0, 1))]
        if len(different) > equal:
            lines.append("Most lines differ: check translations before you use the model.")
        return "\n".join(lines)


def validation_lines(loaded: Checkpoint) -> list[str]:
    """The source lines of the validation set of the model's first language pair. Raises NmtError if it is not a file on
    this machine."""
    data = loaded.config.data
    pair = data.language_pairs.pairs[0]
    corpora = [corpus for corpus in data.held_out if data.pair_of(corpus) == pair]
    if not corpora:
        raise NmtError(f"data.validation: has no text in {pair}")
    if not corpora[0].is_file:
        raise NmtError(f"data.validation: {corpora[0].label}: not a file")
    try:
        return [source for source, _ in read_validation(corpora[0], data)]
    except NmtError as error:
        raise NmtError(f"data.validation: {error}") from None


def sample(loaded: Checkpoint, lines: Sequence[str] | None) -> list[str]:
    """The first lines that have text. lines: None for the validation text, or for a text in many languages if that
    cannot be read. Raises NmtError if no line has text."""
    if lines is None:
        try:
            lines = validation_lines(loaded)
        except NmtError:
            lines = (*LINES, *ENGLISH)
    if not (with_text := first_lines(lines)):
        raise NmtError(f"--sample: none of its {len(lines)} lines has text: give another file")
    return with_text


def first_lines(lines: Iterable[str]) -> list[str]:
    """The first lines that have text, as many as are compared."""
    return list(islice((line for line in lines if line.strip()), _MOST_LINES))


def translate(loaded: Checkpoint, lines: Sequence[str]) -> list[str]:
    """Translates lines with nmt on the CPU. Raises NmtError if weights and settings do not belong together, or if the
    model computes no probabilities."""
    return translate_by(PyTorchEngine([loaded.build()], torch.device("cpu")), loaded, lines)


def translate_by(engine: Engine, loaded: Checkpoint, lines: Sequence[str]) -> list[str]:
    """Translates lines with an engine of the model for its first language pair: by greedy search with the model's
    length limits, and without features that other programs do not have."""
    decoding, languages = loaded.config.decoding, loaded.config.data.language_pairs
    greedy = DecodingConfig(
        beam_size=1,
        max_extra_tokens=decoding.max_extra_tokens,
        max_length_ratio=decoding.max_length_ratio,
        max_length=decoding.max_length,
        capitals="keep",
    )
    pair = languages.pairs[0]
    translator = Translator(engine, loaded.vocabulary, greedy, languages)
    return translator.translate(lines, to=pair.target, from_=pair.source or None)
