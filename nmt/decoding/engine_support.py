"""Which settings of `decoding` the engines of other programs support. nmt's own search, with PyTorch, supports all.

Add a new setting to `SETTINGS`, and nowhere else. Loads no PyTorch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

from nmt.config.schema import DecodingConfig
from nmt.config.writer import in_one_line


@dataclass(frozen=True)
class Support:
    """How other engines support a setting. A setting that does not concern their search counts as supported.

    ctranslate2: `same`: as in nmt; `other`: similar, used for an exported folder only; `none`: not supported.
    in_transformers: whether transformers supports it. excludes: whether it excludes outputs: the setting is not applied
    to sentences for which it excludes all outputs.
    """

    ctranslate2: Literal["same", "other", "none"] = "same"
    in_transformers: bool = True
    excludes: bool = False


SETTINGS = {
    "method": Support("none"),  # it takes no seed for each sentence
    "beam_size": Support(),
    "length_penalty": Support(),
    "normalization": Support(),
    "coverage_penalty": Support("none", in_transformers=False),
    "max_extra_tokens": Support(),
    "max_length_ratio": Support(),
    "max_length": Support(),
    "min_length": Support("other", excludes=True),  # it forbids the end before the softmax
    "min_length_ratio": Support("other", in_transformers=False, excludes=True),
    "no_repeat_ngram": Support("none", excludes=True),
    "banned": Support("none", in_transformers=False, excludes=True),
    "temperature": Support(),
    "top_k": Support(),
    "top_p": Support(),
    "seed": Support(),
    "consensus": Support(in_transformers=False),
    "candidates": Support(),
    "capitals": Support(),
    "keep": Support(),
    "precision": Support(),  # chosen when a model is opened
    "engine": Support(),
    "shortlist": Support(),
    "batch_tokens": Support(),
    "max_source_tokens": Support(),
    "long_input": Support(),
}


def changed(decoding: DecodingConfig) -> Iterator[tuple[str, Support]]:
    """The settings whose value is not the default."""
    for field in fields(DecodingConfig):
        if getattr(decoding, field.name) != field.default:
            yield field.name, SETTINGS[field.name]


def excluding(decoding: DecodingConfig) -> dict[str, Any]:
    """The defaults of the changed settings that exclude outputs. The defaults exclude none. Empty if none changed."""
    names = {name for name, support in changed(decoding) if support.excludes}
    return {field.name: field.default for field in fields(DecodingConfig) if field.name in names}


def ctranslate2_lacks(decoding: DecodingConfig, *, in_folder: bool) -> str | None:
    """The first setting that CTranslate2 does not support, with the value that it must have; None if there is none."""
    for name, support in changed(decoding):
        if support.ctranslate2 == "none" or (support.ctranslate2 == "other" and not in_folder):
            value, default = (in_one_line(getattr(settings, name)) for settings in (decoding, DecodingConfig()))
            return f"decoding.{name}: {value}: with CTranslate2 it must be {default}"
    return None
