"""Other numbers than float32 give nearly the same."""

import copy

import pytest
import torch
from helpers.translators import CPU, LINES, MODEL, new_translator

from nmt.decoding import model_loader
from nmt.decoding.engine import PyTorchEngine
from nmt.errors import NmtError


@pytest.mark.parametrize(("precision", "error"), [("model", 1e-4), ("float32", 1e-4), ("bfloat16", 0.5), ("int8", 0.5)])
def test_scores_are_close_to_the_models_own(precision: str, error: float) -> None:
    plain, other = new_translator(), new_translator()
    model = model_loader.prepare(copy.deepcopy(MODEL), CPU, precision)
    other.engine = PyTorchEngine([model], CPU)
    targets = LINES[::-1]
    expected, found = plain.score(LINES, targets), other.score(LINES, targets)
    for one, another in zip(found, expected, strict=True):
        assert one.token_scores == pytest.approx(another.token_scores, abs=error)
    assert (found != expected) == (precision in ("bfloat16", "int8"))
    assert len(other.translate(LINES)) == len(LINES)
    assert [one.pieces for [one] in other.hypotheses(LINES)] == [
        one.pieces for [one] in other.hypotheses(LINES, alignment=True)
    ]


def test_int8_is_for_the_cpu() -> None:
    with pytest.raises(NmtError, match="int8 needs the CPU, and the device is meta"):
        model_loader.prepare(copy.deepcopy(MODEL), torch.device("meta"), "int8")
