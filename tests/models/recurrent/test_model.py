"""The model: equal to itself step by step, without padding and reordered; its sizes, and how it begins."""

import itertools
from typing import Any

import pytest
import torch
from helpers.recurrent_models import FACTORS, VARIANTS, make, name_of
from helpers.transformers import BOS, PAD, V, decoder_input, sentences
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import schema
from nmt.config.schema import DecodingConfig
from nmt.data.batches.padding import Batch
from nmt.decoding import ensemble
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.decoder_model import SearchOptions
from nmt.loading import model_loader
from nmt.models.recurrent import attention as attention_module
from nmt.models.recurrent.cells import Cells, State
from nmt.models.recurrent.model import DecoderState, RecurrentModel
from nmt.models.translation_model import SampledStates
from nmt.training.objective import Objective

CPU = torch.device("cpu")
Batched = list[list[list[int]]]  # [B][K]: the tokens of each hypothesis


def assert_close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_the_variants_have_every_two_values_together_that_go_together() -> None:
    missing = set()
    for (one, ones), (other, others) in itertools.combinations(FACTORS.items(), 2):
        together = {(variant[one], variant[other]) for variant in VARIANTS}
        missing |= set(itertools.product(ones, others)) - together
    local = set(itertools.product(("latent", "none"), ("local-m", "local-p")))
    assert missing == {*local, ("none", "hard")}


# ------------------------------------------------------------------------ step by step, padded, reordered


def assert_next_states(
    model: RecurrentModel, state: DecoderState, source: list[Tensor], prefixes: Batched
) -> DecoderState:
    """`state` gives each hypothesis what its whole prefix gives; prefixes [B][K], newest token last."""
    hidden, state = model.step(state, torch.tensor([[prefix[-1] for prefix in row] for row in prefixes]))
    for b, row in enumerate(prefixes):
        for k, prefix in enumerate(row):
            assert_close(hidden[b, k], model(source[b][None], torch.tensor([prefix]))[0, -1])
    return state


@torch.no_grad()
@pytest.mark.parametrize("changes", VARIANTS, ids=name_of)
def test_reordered_states_equal_recomputed_ones(changes: dict[str, Any]) -> None:
    """Widen, follow survivors, drop sentences: each time as if from the start, without padding."""
    model, lengths = make(**changes), [4, 7, 2]
    batch = sentences(lengths)
    source = [row[:length] for row, length in zip(batch, lengths, strict=True)]
    prefixes: Batched = [[[BOS]] for _ in source]
    state = assert_next_states(model, model.start(model.encode(batch)), source, prefixes)
    generator = torch.Generator().manual_seed(4)
    for lines in (
        [[0, 0, 0], [1, 1, 1], [2, 2, 2]],  # widen to three hypotheses
        [[2, 0, 0], [3, 5, 3], [8, 7, 6]],  # survivors
        [[1, 2, 2], [8, 6, 6]],  # the second sentence is finished
        [[2, 1], [3, 3]],  # two hypotheses
        [[3]],  # one of the second sentence
    ):
        rows, width = torch.tensor(lines), len(prefixes[0])
        new = torch.randint(4, V, rows.shape, generator=generator).tolist()
        source = [source[line[0] // width] for line in lines]
        old = [prefix for row in prefixes for prefix in row]
        prefixes = [[[*old[i], token] for i, token in zip(*pair, strict=True)] for pair in zip(lines, new, strict=True)]
        state = assert_next_states(model, model.reorder(state, rows), source, prefixes)


@pytest.mark.parametrize("changes", VARIANTS, ids=name_of)
def test_a_padded_batch_equals_one_by_one(changes: dict[str, Any]) -> None:
    """Gradients too."""
    model, lengths, target_lengths = make(**changes), [7, 2, 5, 1], [3, 8, 1, 5]
    source, target = sentences(lengths), decoder_input(target_lengths)
    source = torch.cat([source, torch.full((4, 2), PAD)], dim=1)
    together, alignment = model(source, target), model.alignment(source, target)
    assert_close(alignment.sum(dim=2), torch.ones_like(alignment[:, :, 0]))
    direction = torch.randn_like(together)
    tokens = torch.arange(8) < torch.tensor(target_lengths)[:, None]
    weights = list(model.parameters())
    gradients = torch.autograd.grad((together * direction)[tokens].sum(), weights, allow_unused=True)
    total = [torch.zeros_like(parameter) for parameter in weights]
    for b, (s, t) in enumerate(zip(lengths, target_lengths, strict=True)):
        alone = model(source[b : b + 1, :s], target[b : b + 1, :t])
        assert_close(alone[0], together[b, :t])
        assert_close(model.alignment(source[b : b + 1, :s], target[b : b + 1, :t])[0], alignment[b, :t, :s])
        assert not alignment[b, :, s:].any()
        parts = torch.autograd.grad((alone[0] * direction[b, :t]).sum(), weights, allow_unused=True)
        for sum_, part in zip(total, parts, strict=True):
            sum_ += 0 if part is None else part
    for one, other in zip(gradients, total, strict=True):
        torch.testing.assert_close(torch.zeros_like(other) if one is None else one, other, rtol=1e-8, atol=1e-9)


# ------------------------------------------------------------------------ how it begins, and its sizes


def plain_cells(self: Cells, x: Tensor, state: State | None = None) -> Tensor:
    """Cells.forward one step after another: PyTorch does not count the products of its fused cells."""
    state, found = state or (x.new_zeros(x.shape[1], self.hidden),) * self.states, []
    for now in x:
        state = self.step(now, state)
        found.append(state[0])
    return torch.stack(found)


@pytest.mark.parametrize("changes", VARIANTS, ids=name_of)
def test_operations_are_those_that_pytorch_counts(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    count, source, target = 2, 3, 7
    monkeypatch.setattr(Cells, "forward", plain_cells)
    monkeypatch.setattr(
        attention_module,
        "additive_scores",
        lambda q, k, v: (torch.tanh(q[:, :, None] + k[:, None]) @ v[:, None])[..., 0],
    )
    model = make(**changes).float().train()
    config, size = model.config, model.config.hidden_size
    ids = torch.full((count, source), 5), torch.full((count, target), 5)
    with FlopCounterMode(display=False) as operations:
        states = model(*ids)
        loss = (states.states.sum() + states.log_p.sum()) if isinstance(states, SampledStates) else states.sum()
        loss.backward()
    # What is multiplied with constants needs one product less: the first states of the encoder's cells and the first
    # state fed are zeros.
    cells = [part for layer in model.encoder for part in (layer.forwards, layer.backwards) if part is not None]
    less = count * sum(part.recurrent.numel() for part in cells)
    if config.input_feeding:
        less += count * size * len(model.decoder.cells[0].input)
    of_output = count * target * size * V * (8 if config.attention_choice == "hard" else 6)
    without_output = model.training_flops(count, count * source, count * target) - of_output
    assert operations.get_total_flops() == without_output - 2 * less
    assert model.training_flops(0, 0, 0) == 0


# ------------------------------------------------------------------------ training and searching in fewer bits


def objective(model: RecurrentModel, **training: Any) -> Objective:
    return Objective(model.float(), schema.TrainingConfig(**training)).train()


def batch() -> Batch:
    return Batch.from_padded(sentences([4, 2, 6]), sentences([5, 7, 1], seed=3))


@pytest.mark.parametrize("changes", VARIANTS, ids=name_of)
def test_it_trains_in_fewer_bits(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients are about those of float32; hard attention draws the same positions."""
    waiting = 1e3 ** torch.arange(10.0)  # the first position with a probability is drawn
    monkeypatch.setattr(torch.Tensor, "exponential_", lambda noise: noise.copy_(waiting[: noise.shape[2]]))
    found = []
    for precision in ("float32", "bfloat16"):
        of_model = objective(make(**changes), precision=precision)
        loss, _ = of_model(batch())
        loss.backward()
        assert loss.dtype == torch.float32
        found.append(torch.cat([weight.grad.flatten() for weight in of_model.parameters() if weight.grad is not None]))
    exact, rough = found
    assert 1e-6 < (rough - exact).norm() / exact.norm() < 0.3


@pytest.mark.parametrize(
    "changes",
    [{"embedding_size": 6, "tie": "all"}, {"cell": "gru", "input_feeding": False}],
    ids=name_of,
)
def test_quantized_it_scores_nearly_the_same_and_searches(changes: dict[str, Any]) -> None:
    source, target = sentences([4, 6]), sentences([3, 5], seed=7)
    expected = ensemble.token_scores([make(**changes).float()], source, target)
    changed = model_loader.prepare(make(**changes).float(), CPU, "bfloat16")
    # The output matrix is not rounded, though the embeddings tied to it are.
    assert torch.equal(changed.output_weight, make(**changes).float().output_weight)
    assert changed.target_embedding.weight.dtype == torch.bfloat16
    found = ensemble.token_scores([changed], source, target)
    assert 1e-7 < (found - expected).abs().max() < 0.2
    options = SearchOptions(DecodingConfig(beam_size=3), n_best=3)
    [hypotheses] = PyTorchEngine([changed], CPU).search([SearchInput([5, 6, 7], 6)], options, 1000)
    [again] = PyTorchEngine([changed], CPU).score([([5, 6, 7], hypotheses[0].tokens)], 1000)
    assert hypotheses[0].token_scores == pytest.approx(again, abs=0.03)
