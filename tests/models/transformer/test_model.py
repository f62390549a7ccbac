"""The model: equal to itself step by step, without padding and reordered; its sizes and how it begins."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from helpers.transformers import BOS, EOS, PAD, TINY, VARIANTS, V, decoder_input, make, sentences
from torch import Tensor

from nmt.config.schema import DecodingConfig
from nmt.decoding.search.decoder_model import SearchOptions
from nmt.decoding.search.search import search
from nmt.errors import NmtError
from nmt.models.transformer.model import DecoderState, Transformer


def name_of(changes: dict[str, Any]) -> str:
    return "-".join(map(str, changes.values()))


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------ padding, and what may be seen


@pytest.mark.parametrize("changes", VARIANTS[:4], ids=name_of)
def test_a_padded_batch_equals_one_by_one(changes: dict[str, Any]) -> None:
    model = make(**changes)
    lengths, target_lengths = [7, 2, 5, 1], [3, 8, 1, 5]
    source, target = sentences(lengths), decoder_input(target_lengths)
    together = model(source, target)
    direction = torch.randn_like(together)
    tokens = torch.arange(8) < torch.tensor(target_lengths)[:, None]
    gradients = torch.autograd.grad((together * direction)[tokens].sum(), list(model.parameters()), allow_unused=True)
    total = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for b, (s, t) in enumerate(zip(lengths, target_lengths, strict=True)):
        alone = model(source[b : b + 1, :s], target[b : b + 1, :t])
        assert_close(alone[0], together[b, :t])
        parts = torch.autograd.grad((alone[0] * direction[b, :t]).sum(), list(model.parameters()), allow_unused=True)
        for sum_, part in zip(total, parts, strict=True):
            sum_ += 0 if part is None else part
    for one, other in zip(gradients, total, strict=True):
        torch.testing.assert_close(other if one is None else one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_source_token_counts_and_no_later_target_token(norm: str) -> None:
    model, source, target = make(norm=norm), sentences([5, 6]), decoder_input([7, 7])
    before = model(source, target)
    for s in range(5):
        changed = source.clone()
        changed[:, s] = changed[:, s] % (V - 4) + 4
        assert (model(changed, target) - before).abs().amax(dim=-1).min() > 1e-6
    for t in range(1, 7):
        changed = target.clone()
        changed[:, t:] = (changed[:, t:] + 5) % V
        after = model(source, changed)
        assert_close(after[:, :t], before[:, :t])
        assert not torch.isclose(after[:, t], before[:, t]).all(dim=-1).any()


# ------------------------------------------------------------------------ step by step, reordered


def assert_next_scores(
    model: Transformer, state: DecoderState, source: list[Tensor], prefixes: list[list[list[int]]]
) -> DecoderState:
    """`state` gives each hypothesis the scores that its whole prefix gives; prefixes [B][K], newest token last."""
    newest = torch.tensor([[prefix[-1] for prefix in row] for row in prefixes])
    hidden, state = model.step(state, newest)
    scores = model.scores(hidden)
    assert scores.dtype == torch.float32
    for b, row in enumerate(prefixes):
        for k, prefix in enumerate(row):
            expected = model.logits(model(source[b][None], torch.tensor([prefix])))[0, -1]
            torch.testing.assert_close(scores[b, k], expected.float(), rtol=1e-6, atol=1e-6)
    return state


@torch.no_grad()
@pytest.mark.parametrize("changes", VARIANTS, ids=name_of)
def test_reordered_states_equal_recomputed_ones(changes: dict[str, Any]) -> None:
    """Widen, follow survivors, drop sentences: each time as if from the start."""
    model = make(**changes).eval()
    lengths = [4, 7, 2, 5]
    batch = sentences(lengths)
    source = [row[:length] for row, length in zip(batch, lengths, strict=True)]
    prefixes: list[list[list[int]]] = [[[BOS]] for _ in source]
    state = model.start(model.encode(batch))
    generator = torch.Generator().manual_seed(4)
    state = assert_next_scores(model, state, source, prefixes)
    reorderings = [
        [[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 3, 3]],  # widen to three hypotheses
        [[2, 0, 0], [3, 3, 3], [8, 7, 6], [9, 11, 10]],  # survivors
        [[1, 2, 2], [6, 7, 6], [10, 9, 9]],  # the second sentence is finished
        [[3, 5], [8, 6]],  # two sentences, two hypotheses
        [[1], [2]],  # one hypothesis of each
        [[1]],
    ]
    for lines in reorderings:
        rows = torch.tensor(lines)
        width = len(prefixes[0])
        new = torch.randint(4, V, rows.shape, generator=generator).tolist()
        state = model.reorder(state, rows)
        source = [source[line[0] // width] for line in lines]
        prefixes = [
            [[*prefixes[row // width][row % width], token] for row, token in zip(line, tokens, strict=True)]
            for line, tokens in zip(lines, new, strict=True)
        ]
        state = assert_next_scores(model, state, source, prefixes)
        assert state.length == len(prefixes[0][0])


# ------------------------------------------------------------------------ embeddings, sizes, initialisation


def test_dropout_falls_on_embeddings_and_every_sublayer_in_training_alone() -> None:
    source, target = sentences([5, 3]), decoder_input([4, 6])
    model = make(dropout=0.5)
    assert not torch.equal(model(source, target), model(source, target))
    model.eval()
    assert torch.equal(model(source, target), model(source, target))
    assert_close(model(source, target), make()(source, target))
    for setting in ("attention_dropout", "activation_dropout"):
        model = make(**{setting: 0.5})
        assert not torch.equal(model(source, target), model(source, target)), setting


def test_initial_weights_and_logits_have_sane_scales() -> None:
    torch.manual_seed(0)
    sizes = dataclasses.replace(TINY, d_model=128, feed_forward=512, heads=4)
    for norm in ("post", "pre"):
        model = Transformer(dataclasses.replace(sizes, norm=norm), 300, 300, PAD)
        ids = torch.randint(4, 300, (8, 20))
        logits = model.logits(model(ids, ids))
        assert 0.5 < float(logits.detach().std()) < 2
        embedded, _ = model._embed(ids, model.source_embedding, model.source_positions)
        assert 1 < float(embedded.detach().std()) < 1.5  # unit variance, and the sinusoids' half
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                assert not parameter.any(), name
            elif "norm" in name:
                assert bool((parameter == 1).all()), name
            elif "embedding" in name:
                assert float(parameter.detach().std()) == pytest.approx(128**-0.5, rel=0.03)
            else:
                third = math.sqrt(1 / 3 / parameter.shape[1])  # of the variance that keeps a layer's scale
                assert float(parameter.detach().std()) == pytest.approx(third, rel=0.03), name


def test_more_than_the_learned_positions_is_an_error() -> None:
    model = make(positions="learned").eval()
    model(sentences([32]), decoder_input([32]))
    with pytest.raises(NmtError, match=r"33 subwords is longer than model\.max_positions: 32"):
        model(sentences([33]), decoder_input([5]))
    state = model.start(model.encode(sentences([3])))
    for _ in range(32):
        _, state = model.step(state, torch.tensor([[BOS]]))
    with pytest.raises(NmtError, match="33 subwords"):
        model.step(state, torch.tensor([[BOS]]))


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.bfloat16, 0.3), (torch.float16, 0.03)], ids=str)
def test_under_autocast_a_search_scores_as_the_forward_pass(dtype: torch.dtype, rounding: float) -> None:
    """A cache of another type than its keys would end it. rounding: in nats, of log P of a short output."""
    model, source = make(double=False).eval(), sentences([7, 7, 7])
    options = SearchOptions(DecodingConfig(beam_size=3), never=(PAD, BOS))
    with torch.no_grad(), torch.autocast("cpu", dtype):
        for row, (found,) in zip(source, search(model, source, torch.full((3,), 7), options), strict=True):
            before, after = torch.tensor([[BOS, *found.tokens]]), torch.tensor([*found.tokens, EOS])
            log_p = model.scores(model(row[None], before)).float().log_softmax(dim=-1)
            total = float(log_p[0, torch.arange(len(after)), after].sum())
            assert total == pytest.approx(found.log_probability, abs=rounding)
