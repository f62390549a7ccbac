"""The comparison finds what differs, and calls nothing else a difference."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from helpers.export_models import LINES, engine_of, make_model

from nmt.checkpoints.model_file import Checkpoint
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.stepper import Hypothesis, SearchOptions
from nmt.errors import NmtError
from nmt.interop import parity
from nmt.interop.parity import Parity

MADE = make_model()


class Other(PyTorchEngine):
    """Another of our models as if it were an exported one; `wrong` lines are cut into other subwords."""

    def __init__(self, made: Checkpoint, wrong: Sequence[str] = ()):
        super().__init__([made.build()], torch.device("cpu"))
        self.vocabulary, self.wrong = made.vocabulary, wrong

    def subwords(self, lines: Sequence[str], pairs: object = None) -> list[list[int]]:
        return [
            ids[:-1] if line in self.wrong else ids
            for line, ids in zip(lines, MADE.vocabulary.source.encode(list(lines)), strict=True)
        ]


def compare(other: Other, lines: Sequence[str] = LINES) -> Parity:
    ours = engine_of(MADE)
    with torch.inference_mode():
        return parity.compare(ours, other, MADE.vocabulary, MADE.config, lines)


def disturbed(by: float) -> Checkpoint:
    torch.manual_seed(3)
    weights = {name: weight + by * torch.randn_like(weight) for name, weight in MADE.weights.items()}
    return replace(MADE, weights=weights)


def test_a_model_is_on_a_par_with_itself() -> None:
    found = compare(Other(MADE))
    assert found.holds and found.lines == len(LINES) - 1  # one is empty
    assert str(found).startswith("7 lines compared; identical: subwords 7, greedy search 7, beam search (size 3) 7\n")


def test_small_errors_show_in_the_scores_and_large_ones_in_the_text() -> None:
    near = compare(Other(disturbed(3e-4)))
    assert not near.holds and not near.scored and 1e-4 < near.largest < 1
    far = compare(Other(disturbed(0.3)))
    assert far.greedy and far.beam and not far.holds
    first = far.greedy[0]
    assert f"line {first.line}, greedy search\n  model   {first.our_score:.5f}  {first.ours}\n  export" in str(far)
    assert {difference.line for difference in far.greedy} <= {1, 2, 4, 5, 6, 7, 8}


def test_another_tokenizer_is_found() -> None:
    found = compare(Other(MADE, wrong=["four", "two"]))
    assert found.tokenized == [2, 7] and not found.holds
    assert "line 2: split into different subwords" in str(found)


def test_a_tie_is_no_difference_but_is_listed() -> None:
    class Tied(Other):
        """Prefers another first token by a hair."""

        def search(
            self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
        ) -> list[list[Hypothesis]]:
            found = super().search(sources, options, batch_tokens)
            [best, *_] = found[0]
            tokens = [best.tokens[0] + 1, *best.tokens[1:]]
            scores = [best.token_scores[0] - 1e-5, *best.token_scores[1:]]
            return [[replace(best, tokens=tokens, token_scores=scores)], *found[1:]]

    found = compare(Tied(MADE))
    assert found.holds and [difference.line for difference in found.greedy] == [1]
    assert "line 1, greedy search (a tie)" in str(found)


def test_scores_that_are_no_numbers_are_an_error() -> None:
    with pytest.raises(NmtError, match="line 1: the scores are not finite"):
        compare(Other(disturbed(float("nan"))))


def test_the_sample_is_text_of_many_lengths_and_always_the_same() -> None:
    sample = parity.sample(MADE.vocabulary.source)
    assert sample == parity.sample(MADE.vocabulary.source)
    assert len({len(ids) for ids in MADE.vocabulary.source.encode(sample)}) > 10


def test_lines_longer_than_the_model_takes_are_left_out() -> None:
    assert compare(Other(MADE), ["one two", "seven " * 100]).lines == 1
