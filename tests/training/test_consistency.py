"""Consistency training is what its papers define, in one pass over the logits; weight 0 is plain training."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.stores import Store, make
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nmt.commands.train import training_data
from nmt.config import reader, schema
from nmt.data.batches.packing import pack
from nmt.data.batches.padding import Batch, collate_pairs
from nmt.data.batches.token_cutoff import CUT, CutTokens, TokenCutoff, draw_cuts
from nmt.data.subwords.vocabulary import BOS, EOS, PAD
from nmt.errors import NmtError
from nmt.models.embedding import embedded
from nmt.models.recurrent.model import RecurrentModel
from nmt.models.transformer.model import Transformer
from nmt.training import loss as plain_loss
from nmt.training.consistency import ConsistencyWeights, consistent_cross_entropy
from nmt.training.objective import Objective
from nmt.training.trainer import Trainer

V = 23
SIZES = schema.TransformerConfig(d_model=16, feed_forward=24, layers=2, heads=2, dropout=0.0)
RECURRENT = schema.RecurrentConfig(embedding_size=8, hidden_size=16, dropout=0.0)
METHODS = [
    {"consistency": "rdrop", "consistency_weight": 5.0, "token_cutoff": 0.2},
    {"consistency": "simcut", "consistency_weight": 3.0, "token_cutoff": 0.2},
    {"token_cutoff": 0.2},
]
NAMES = ["rdrop", "simcut", "cutoff alone"]


def training(**settings: Any) -> schema.TrainingConfig:
    return schema.TrainingConfig(**settings)


def kl(one: Tensor, other: Tensor) -> Tensor:
    """KL(one ‖ other) of log-probabilities [N, V], summed over the tokens."""
    return F.kl_div(other, one, reduction="sum", log_target=True)


def expected_loss(logits: list[Tensor], labels: Tensor, settings: schema.TrainingConfig) -> Tensor:
    """The equations, with complete matrices. logits: of each pass [N, V]."""
    entropies = [
        F.cross_entropy(each, labels, label_smoothing=settings.label_smoothing, reduction="sum") for each in logits
    ]
    if len(logits) == 1:
        return entropies[0]
    first, second = (F.log_softmax(each, dim=1) for each in logits)
    weight = settings.weight_of_consistency
    if settings.consistency == "simcut":
        return entropies[0] + weight * kl(first, second)
    return (sum(entropies) + weight * (kl(first, second) + kl(second, first)) / 2) / 2  # type: ignore[no-any-return]


# --------------------------------------------------------------------------- the loss


@pytest.mark.parametrize("settings", METHODS[:2], ids=NAMES[:2])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("at_once", [7, 2, 1])
def test_loss_and_gradients_are_those_of_two_complete_passes(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], smoothing: float, at_once: int
) -> None:
    monkeypatch.setattr(plain_loss, "rows_at_once", lambda *_: at_once)
    torch.manual_seed(0)
    config = training(**settings, label_smoothing=smoothing)
    hidden, weight = (torch.randn(rows, 6, dtype=torch.float64, requires_grad=True) for rows in (14, V))
    labels = torch.randint(V, (7,))
    loss, nll = consistent_cross_entropy(hidden, weight, labels, smoothing, ConsistencyWeights.from_config(config))
    expected = expected_loss([hidden[:7] @ weight.t(), hidden[7:] @ weight.t()], labels, config)
    torch.testing.assert_close(loss, expected)
    gradients = [torch.autograd.grad(each * 0.7, (hidden, weight)) for each in (loss, expected)]
    for own, other in zip(*gradients, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-10)
    each = F.cross_entropy(hidden @ weight.t(), torch.cat([labels, labels]), reduction="none").view(2, 7)
    torch.testing.assert_close(nll, each[0] if config.consistency == "simcut" else each.mean(dim=0))
    with torch.no_grad():
        loss, _ = consistent_cross_entropy(hidden, weight, labels, smoothing, ConsistencyWeights.from_config(config))
    torch.testing.assert_close(loss, expected)


class Largest(TorchDispatchMode):
    """Notes the most numbers in any tensor that an operation returns."""

    most = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):  # type: ignore[no-untyped-def]
        found = function(*arguments, **(named or {}))
        self.most = max(self.most, *(each.numel() for each in tree_leaves(found) if isinstance(each, Tensor)), 0)
        return found


@pytest.mark.parametrize("settings", METHODS[:2], ids=NAMES[:2])
def test_the_logits_are_never_held_completely(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    monkeypatch.setattr(plain_loss, "rows_at_once", lambda *_: 8)
    tokens, width, subwords = 64, 4, 100
    hidden, weight = (torch.randn(rows, width, requires_grad=True) for rows in (2 * tokens, subwords))
    with Largest() as noted:
        loss, _ = consistent_cross_entropy(
            hidden,
            weight,
            torch.randint(subwords, (tokens,)),
            0.1,
            ConsistencyWeights.from_config(training(**settings)),
        )
        loss.backward()
    assert noted.most == 8 * subwords < tokens * subwords


# --------------------------------------------------------------------------- the objective


def rows(seed: int = 0, count: int = 9) -> tuple[list[np.ndarray], list[np.ndarray]]:
    random = np.random.default_rng(seed)
    source, target = (
        [np.append(random.integers(4, V, length), EOS) for length in random.integers(1, 11, count)] for _ in range(2)
    )
    return source, target


def cuts_of(source: list[np.ndarray], target: list[np.ndarray], settings: schema.TrainingConfig) -> CutTokens:
    lengths = [np.array([len(row) for row in side]) for side in (source, target)]
    return draw_cuts(*lengths, np.zeros(len(source), np.int64), TokenCutoff(settings.cutoff), (1, 2))


def losses_and_gradients(of_model: Objective, pairs: Any) -> dict[str, Tensor]:
    of_model.zero_grad()
    loss, nll = of_model(pairs)
    loss.backward()
    gradients = {name: weight.grad for name, weight in of_model.named_parameters() if weight.grad is not None}
    return {"loss": loss.detach(), "nll": nll, **gradients}


def close(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("settings", METHODS, ids=NAMES)
@pytest.mark.parametrize("sizes", [SIZES, RECURRENT], ids=["transformer", "recurrent"])
def test_both_passes_in_one_batch_are_two_passes(settings: dict[str, Any], sizes: Any) -> None:
    torch.manual_seed(0)
    config = training(**settings)
    model = (Transformer if sizes is SIZES else RecurrentModel)(sizes, V, V, PAD).double()
    of_model = Objective(model, config).train()
    source, target = rows()
    pairs = collate_pairs(source, target, cuts=cuts_of(source, target, config))
    found = losses_and_gradients(of_model, pairs)
    assert pairs.read_source is not None and pairs.read_target is not None
    of_model.zero_grad()
    logits = []
    for read_source, read_target in zip(pairs.read_source, pairs.read_target, strict=True):
        before = torch.cat([torch.full((len(target), 1), BOS), read_target[:, :-1]], dim=1)
        logits.append(model.logits(model(read_source, before))[pairs.target != PAD])
    labels = pairs.target[pairs.target != PAD]
    loss = expected_loss(logits, labels, config)
    loss.backward()
    gradients = {name: weight.grad for name, weight in of_model.named_parameters() if weight.grad is not None}
    each = [F.cross_entropy(one, labels, reduction="none").detach() for one in logits]
    nll = ((each[0] + each[1]) / 2 if config.consistency == "rdrop" else each[0]).sum()[None]
    close(found, {"loss": loss.detach(), "nll": nll, **gradients})
    plain = collate_pairs(source, target)
    of_validation = losses_and_gradients(of_model.eval(), plain)
    close(of_validation, losses_and_gradients(Objective(model, training()).eval(), plain))


@pytest.mark.parametrize("settings", [*METHODS, {"consistency": "rdrop"}], ids=[*NAMES, "rdrop without cutoff"])
def test_packed_batches_give_the_same(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    config = training(**settings)
    source, target = rows()
    cuts = cuts_of(source, target, config) if config.cutoff else None
    model = Transformer(replace(SIZES, positions="learned", max_positions=12), V, V, PAD).double()
    of_model = Objective(model, config).train()
    length = max(sum(map(len, source)), sum(map(len, target))) + 30
    packed = pack(source, target, length, longest=11, cuts=cuts)
    padded = collate_pairs(source, target, cuts=cuts)
    close(losses_and_gradients(of_model, padded), losses_and_gradients(of_model, packed))


@pytest.mark.parametrize("method", ["rdrop", "simcut"])
def test_weight_zero_is_plain_training_to_the_bit(method: str) -> None:
    torch.manual_seed(0)
    model = Transformer(replace(SIZES, dropout=0.3), V, V, PAD)
    found = []
    for config in (training(), training(consistency=method, consistency_weight=0.0)):
        assert (config.passes, config.cutoff) == (1, ())
        torch.manual_seed(7)
        found.append(losses_and_gradients(Objective(model, config).train(), collate_pairs(*rows())))
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())


# --------------------------------------------------------------------------- what is cut off


def test_a_token_that_is_cut_off_has_no_vector_and_no_gradient() -> None:
    embedding = torch.nn.Embedding(5, 3)
    vectors = embedded(torch.tensor([[1, CUT, 4]]), embedding, cuts=True)
    assert vectors[0, 1].tolist() == [0, 0, 0] and torch.equal(vectors[0, 2], embedding.weight[4])
    vectors.sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad.sum(dim=1).tolist() == [0, 3, 0, 0, 3]


def test_rates_and_what_is_never_cut() -> None:
    lengths, corpora = np.full(2000, 10), np.arange(2000) // 1000
    cutoff = TokenCutoff((0.0, 0.25), ((0, 0), (0, 0)))
    cuts = draw_cuts(lengths, lengths, corpora, cutoff, (1, 2, 3))
    for side in cuts:
        assert not side[0].any() and abs(side[1].mean() - 0.25 * 0.9) < 0.01
        assert not side[:, 9::10].any()
    assert not np.array_equal(*cuts) and not np.array_equal(
        cuts[0], draw_cuts(lengths, lengths, corpora, cutoff, (1, 2, 4))[0]
    )


def test_training_reads_what_the_settings_say(make_config: Callable[..., Any]) -> None:
    found = {}
    for method in ("none", "simcut"):
        config = make_config("model.dropout=0", "training.token_cutoff=0.3", f"training.consistency={method}")
        trainer = Trainer(config, training_data(config), torch.device("cpu"))
        [batch] = next(trainer.batches.epoch(0)).micro_batches
        found[method] = [(read == CUT).any().item() for read in batch.read_source]
        of_a_pass = trainer.model.training_flops(1, 5, 5)
        assert trainer.model.cuts and trainer._flops(1, 5, 5) == len(found[method]) * of_a_pass
        assert all(step.micro_batches[0].read_source is None for step in trainer.validation[0][1].epoch(0))
    assert found == {"none": [True], "simcut": [False, True]}


def read_by_pair(store: Store, steps: Any) -> dict[int, tuple[list[list[int]], list[list[int]]]]:
    """What each pass reads of each pair, without padding."""
    found = {}
    for step in steps:
        for batch in step.micro_batches:
            assert isinstance(batch, Batch) and batch.read_source is not None and batch.read_target is not None
            for row, pair in enumerate(store.read.pop(0)):
                sides = (batch.read_source, batch.read_target)
                source, target = ([[i for i in ids.tolist() if i != PAD] for ids in side[:, row]] for side in sides)
                found[pair] = (source, target)
    return found


def test_what_is_cut_off_does_not_depend_on_ranks_micro_batches_and_resuming() -> None:
    store = Store([(3 + i % 15, 2 + i % 7) for i in range(200)])
    cutoff = {"cutoff": TokenCutoff((0.1, 0.3))}
    whole = read_by_pair(store, make(store, 300, **cutoff).epoch(1))
    assert len(whole) == 200 and sum(CUT in ids for sides in whole.values() for side in sides for ids in side) > 200
    parts: dict[int, Any] = {}
    for rank in range(3):
        ranks = {"rank": rank, "world_size": 3, "micro_batch_tokens": 60}
        own = read_by_pair(store, make(store, 300, **cutoff, **ranks).epoch(1))
        assert not parts.keys() & own.keys()
        parts |= own
    assert parts == whole
    resumed = read_by_pair(store, make(store, 300, **cutoff).epoch(1, 4))
    assert resumed.items() <= whole.items() and len(resumed) > 20
    again = read_by_pair(store, make(store, 300, **cutoff).epoch(2))
    assert sum(again[pair] != whole[pair] for pair in whole) > 150


# --------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["training.consistency_weight=3"], "training.consistency_weight=3 needs training.consistency=rdrop or simcut"),
        (
            ["training.consistency=rdrop", "model.architecture=recurrent", "model.attention_choice=hard"],
            "training.consistency=rdrop does not go with model.attention_choice=hard",
        ),
    ],
)
def test_settings_that_do_not_go_together(overrides: list[str], problem: str) -> None:
    text = "{run_dir: r, data: {source_language: en, target_language: de, train: [{file: a.tsv}]}}"
    with pytest.raises(NmtError, match=problem):
        reader.parse(schema.Config, text, "config", overrides)
