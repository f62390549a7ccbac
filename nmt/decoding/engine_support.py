"""What the engines make of each setting of `decoding`. nmt's own search, by PyTorch, has all of them.

A new setting is added to `SETTINGS`, and nowhere else. Loads no PyTorch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from nmt.config.schema import DecodingConfig
from nmt.config.writer import in_one_line


@dataclass(frozen=True)
class Support:
    """How a setting is treated where it has another value than its default.

    ctranslate2: what CTranslate2 does otherwise; None: its results are identical. also: another value with which they
    are. in_folder: whether an exported CTranslate2 folder has it all the same, in CTranslate2's way.
    in_transformers: whether transformers can be told it, or it does not concern the search there.
    excludes: whether it excludes outputs: then it is left out where no output satisfies it.
    """

    ctranslate2: str | None = None
    also: object = None
    in_folder: bool = False
    in_transformers: bool = True
    excludes: bool = False


_FORBIDS = "it changes the probabilities of other subwords too"

SETTINGS = {
    "method": Support("it draws other samples"),
    "beam_size": Support(),
    "length_penalty": Support(),
    "normalization": Support(),
    "coverage_penalty": Support("it has another coverage penalty", in_transformers=False),
    "max_extra_tokens": Support(),
    "max_length_ratio": Support(),
    "max_length": Support(),
    "min_length": Support(_FORBIDS, in_folder=True, excludes=True),
    "min_length_ratio": Support(_FORBIDS, in_folder=True, in_transformers=False, excludes=True),
    "no_repeat_ngram": Support(_FORBIDS, excludes=True),
    "banned": Support("it cannot ban words", in_transformers=False, excludes=True),
    "temperature": Support(),
    "top_k": Support(),
    "top_p": Support(),
    "seed": Support(),
    "consensus": Support(in_transformers=False),
    "candidates": Support(),
    "capitals": Support(),
    "keep": Support(),
    "precision": Support("it rounds differently", also="float32", in_folder=True),  # a folder was written in one
    "engine": Support(),
    "batch_tokens": Support(),
    "max_source_tokens": Support(),
    "long_input": Support(),
}


def changed(decoding: DecodingConfig) -> Iterator[tuple[str, Support]]:
    """The settings with another value than their default."""
    for field in fields(DecodingConfig):
        if getattr(decoding, field.name) != field.default:
            yield field.name, SETTINGS[field.name]


def excluding(decoding: DecodingConfig) -> dict[str, Any]:
    """The settings that exclude outputs, with their defaults, which exclude none; empty if none is changed."""
    names = {name for name, support in changed(decoding) if support.excludes}
    return {field.name: field.default for field in fields(DecodingConfig) if field.name in names}


def ctranslate2_differs(decoding: DecodingConfig) -> str | None:
    """The first setting that CTranslate2 does not do identically, and why; None if there is none."""
    for name, support in changed(decoding):
        if support.ctranslate2 is not None and getattr(decoding, name) != support.also:
            return f"{_shown(decoding, name)}: CTranslate2 is not used: {support.ctranslate2}"
    return None


def not_in_folder(decoding: DecodingConfig) -> str | None:
    """The first setting that a CTranslate2 folder does not have, and how to translate without it; None if there is
    none."""
    for name, support in changed(decoding):
        if support.ctranslate2 is not None and not support.in_folder:
            default = in_one_line(getattr(DecodingConfig(), name))
            return (
                f"{_shown(decoding, name)}: a CTranslate2 folder has beam search and greedy search only: set "
                f"decoding.{name}={default}, or translate with the model file"
            )
    return None


def _shown(decoding: DecodingConfig, name: str) -> str:
    value = getattr(decoding, name)
    return f"decoding.{name}: {value}" if isinstance(value, int | float | str) else f"decoding.{name}"
