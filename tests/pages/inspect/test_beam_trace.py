"""What is recorded of a search: it changes nothing, and is what a search by hand would look at."""

import math
from collections.abc import Sequence

import pytest
import torch
from helpers.tables import BOS, EOS, OPTIONS, Table, changed
from helpers.translators import CPU, LINES, MODEL, new_translator
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.search.beam import beam_search
from nmt.decoding.search.decoder_model import Hypothesis, LogitsProcessor, SearchOptions
from nmt.pages.inspect.beam_trace import Recorder, RecordingEngine, hypothesis_tokens


def run(table: Table, longest: int, options: SearchOptions, rules: Sequence[LogitsProcessor] = ()) -> list[Hypothesis]:
    [found] = beam_search(table, torch.tensor([[1, EOS]]), torch.tensor([longest]), options, rules)
    return found


def log_p(table: Table, tokens: Sequence[int], options: SearchOptions) -> list[float]:
    scores = table.after(torch.tensor(1), torch.tensor([BOS, *tokens])).clone()
    row = torch.log_softmax(scores, dim=-1)
    row[list(options.never)] = -math.inf
    return [float(value) for value in row]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 5), longest=st.integers(0, 6), alpha=st.sampled_from([0, 0.6]))
def test_it_is_what_a_search_by_hand_looks_at(seed: int, size: int, longest: int, alpha: float) -> None:
    """Step by step: of all continuations of what was kept, the 2K best; the K best of these that go on; and so on."""
    table, options = Table(seed, 9), changed(OPTIONS, beam_size=size, n_best=size, length_penalty=alpha)
    recorder = Recorder(options)
    assert run(table, longest, options, [recorder]) == run(table, longest, options)
    nodes, live = recorder.nodes, [(0.0, [])]
    assert all(node.step == 1 if node.parent is None else nodes[node.parent].fate == "kept" for node in nodes)
    last = max(node.step for node in nodes)
    for step in range(1, last + 1):
        expected = sorted(
            ((total + own, [*tokens, token]) for total, tokens in live
             for token, own in enumerate(log_p(table, tokens, options))
             if own > -math.inf and (token == EOS or step <= longest)),
            reverse=True,
        )[: 2 * size if size > 1 else 1]  # fmt: skip
        places = [place for place, node in enumerate(nodes) if node.step == step]
        assert [hypothesis_tokens(nodes, place) for place in places] == [tokens for _, tokens in expected]
        assert [nodes[place].total for place in places] == pytest.approx([total for total, _ in expected])
        going = [tokens for _, tokens in expected if tokens[-1] != EOS][:size]
        live = [(total, tokens) for total, tokens in expected if tokens in going]
        for rank, place in enumerate(places):
            tokens, fate = hypothesis_tokens(nodes, place), nodes[place].fate
            if tokens[-1] == EOS:
                assert fate == ("finished" if rank < size else "dropped")
            else:
                assert fate == (("kept" if step < last else "open") if tokens in going else "dropped")


@pytest.mark.parametrize("changes", [{"coverage_penalty": 0.5, "no_repeat_ngram": 2}, {"consensus": "chrf"}], ids=str)
def test_a_translator_says_the_same_with_a_recording_engine(changes: dict[str, object]) -> None:
    translator, plain = new_translator(**changes), new_translator(**changes)
    translator.engine = engine = RecordingEngine([MODEL], CPU)
    for line in LINES[:3]:
        [[best]], [[expected]] = translator.hypotheses([line]), plain.hypotheses([line])
        assert best.pieces == expected.pieces
        assert best.score == pytest.approx(expected.score, abs=1e-4)
        ended = [
            hypothesis_tokens(engine.nodes, place) for place, node in enumerate(engine.nodes) if node.fate == "finished"
        ]
        assert all([*one.tokens, EOS] in ended for one in engine.hypotheses)
        assert best.pieces in [translator.vocabulary.target.pieces(tokens) for tokens in ended]
