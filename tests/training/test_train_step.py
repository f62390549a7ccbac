"""A step: a plain one's weights, whatever it is cut into, clipped, averaged, kept small or computed in."""

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.reads import Reads
from helpers.runs import rows_of
from helpers.train_steps import make_train_step
from torch import Tensor

from nmt.commands.train import train, training_data
from nmt.config.schema import Config
from nmt.data.batches.batching import Step
from nmt.data.batches.padding import Batch
from nmt.data.subwords.vocabulary import BOS, PAD
from nmt.distributed.environment import STARTED
from nmt.errors import NmtError
from nmt.models.transformer.model import Transformer
from nmt.training.train_step import TrainStep
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")
V = 300


@pytest.fixture(autouse=True)
def matmul_precision() -> Iterator[None]:
    """A TrainStep sets it for the whole process."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def make_step(number: int = 1, micro_batches: int = 2, longest: int = 7) -> Step:
    """Random ids, some sentences shorter than others."""
    generator = torch.Generator().manual_seed(number)
    batches = []
    for _ in range(micro_batches):
        source, target = torch.randint(4, V, (2, 5, longest), generator=generator)
        for ids in (source, target):
            ends = torch.randint(1, longest + 1, (5, 1), generator=generator)
            ids[torch.arange(longest) >= ends] = PAD
        batches.append(Batch.from_padded(source, target))
    counts = [sum(int((getattr(batch, side) != PAD).sum()) for batch in batches) for side in ("source", "target")]
    return Step(batches, 5 * micro_batches, *counts, 10 * longest * micro_batches)


def learn(of: TrainStep, step: Step, number: int = 1, rate: float = 0.01, *, norm: bool = False) -> bool:
    return of.run(step, number, rate, norm=norm)


def weights(of: TrainStep) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in of.model.named_parameters()}


def gradients(of: TrainStep, step: Step, number: int = 1) -> dict[str, Tensor]:
    """Those that the optimizer was given, without a loss scale."""
    of.optimizer.zero_grad = lambda set_to_none: None  # type: ignore[assignment, method-assign]
    learn(of, step, number, norm=True)
    return {name: weight.grad for name, weight in of.model.named_parameters() if weight.grad is not None}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def relative(got: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The norm of all errors against that of all that is expected."""
    assert got.keys() == expected.keys()
    error = sum(float((got[name] - tensor).norm()) ** 2 for name, tensor in expected.items())
    return (error / sum(float(tensor.norm()) ** 2 for tensor in expected.values())) ** 0.5


@pytest.mark.parametrize("overrides", [("training.clip_norm=1.0",), ("training.packed=true", "training.ema_decay=0.9")])
def test_a_step_reads_no_number(make_config: MakeConfig, overrides: tuple[str, ...]) -> None:
    """So that a GPU never waits for the program."""
    ours = make_train_step(make_config(*overrides))
    first, second = make_step(1), make_step(2)
    learn(ours, first)
    with Reads() as counted:
        learn(ours, second, 2)
    assert counted.reads == [] and counted.others > 100
    with Reads() as counted:
        ours.losses[0].item()
    assert counted.reads == ["_local_scalar_dense"]


# ------------------------------------------------------------------------ by hand


def plain_loss(model: Transformer, batch: Batch, smoothing: float) -> tuple[Tensor, Tensor]:
    """The smoothed loss and -log p, summed over the tokens, as the definition has them."""
    before = torch.cat([torch.full((len(batch.target), 1), BOS), batch.target[:, :-1]], dim=1)
    log_p = torch.log_softmax(model.logits(model(batch.source, before)), dim=-1)[batch.target != PAD]  # [N, V]
    right = torch.nn.functional.one_hot(batch.target[batch.target != PAD], V).to(log_p)
    q = (1 - smoothing) * right + smoothing / V
    return -(q * log_p).sum(), -(right * log_p).sum()


@pytest.mark.parametrize(
    "overrides",
    [
        ("training.clip_norm=0.05",),
        ("training.weight_decay=0.1", "training.label_smoothing=0", "training.adam_betas=[0.8, 0.9]"),
        ("training.clip_norm=1e6", "model.tie=none", "training.label_smoothing=0.3", "training.adam_epsilon=1e-5"),
    ],
)
def test_steps_are_those_of_a_plain_loop(make_config: MakeConfig, overrides: tuple[str, ...]) -> None:
    """In float64, where the two ways differ by rounding alone: weights, norms, losses."""
    config = make_config("model.dropout=0", *overrides)
    training = config.training
    ours = make_train_step(config)
    ours.model.double()
    model = copy.deepcopy(ours.model)
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": training.weight_decay},
            {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
        ],
        betas=training.adam_betas,
        eps=training.adam_epsilon,
        foreach=False,
    )
    losses = torch.zeros(2, dtype=torch.float64)
    for number, rate in enumerate((0.01, 0.02, 0.005), start=1):
        step = make_step(number)
        assert learn(ours, step, number, rate, norm=True)
        optimizer.zero_grad()
        for batch in step.micro_batches:
            loss, nll = plain_loss(model, batch, training.label_smoothing)
            (loss / step.target_tokens).backward()
            losses += torch.stack([loss, nll]).detach()
        clip = float("inf") if training.clip_norm is None else training.clip_norm
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        torch.testing.assert_close(ours.gradient_norm, norm, rtol=1e-10, atol=0)
        assert (norm > clip) == (training.clip_norm == 0.05)
    torch.testing.assert_close(ours.losses, losses, rtol=1e-10, atol=0)
    assert relative(weights(ours), {name: weight.detach() for name, weight in model.named_parameters()}) < 1e-8


def test_the_norm_is_found_where_it_is_asked_for_or_clipped(make_config: MakeConfig) -> None:
    unasked, clipped = make_train_step(make_config()), make_train_step(make_config("training.clip_norm=1e9"))
    for one in (unasked, clipped):
        learn(one, make_step())
    assert unasked.gradient_norm is None
    assert clipped.gradient_norm is not None
    learn(unasked, make_step(2), 2, norm=True)
    learn(clipped, make_step(2), 2)
    assert unasked.gradient_norm is not None
    assert torch.equal(unasked.gradient_norm, clipped.gradient_norm)
    assert same(weights(unasked), weights(clipped))


# ------------------------------------------------------------------------ dropout and recomputation

DROPOUT = ("model.dropout=0.3", "model.attention_dropout=0.2", "model.activation_dropout=0.2", "model.layers=2")


def test_recomputed_layers_give_the_same_gradients_bit_for_bit(make_config: MakeConfig) -> None:
    """The masks of dropout are drawn a second time, and must be the same ones."""
    config = make_config(*DROPOUT, "training.precision=bfloat16")
    again = make_config(*DROPOUT, "training.precision=bfloat16", "training.activation_checkpointing=true")
    kept, recomputed = make_train_step(config), make_train_step(again)
    kept.objective.copies_weights = False  # as where layers are recomputed, when copies of the weights are gone
    runs = 0

    def ran(*_: object) -> None:
        nonlocal runs
        runs += 1

    recomputed.model.encoder[0].feed_forward.inner.register_forward_hook(ran)
    assert same(gradients(kept, make_step()), gradients(recomputed, make_step()))
    assert runs == 4  # twice in each micro-batch


def test_micro_batches_have_masks_of_their_own(make_config: MakeConfig) -> None:
    batch = make_step().micro_batches[0]
    once = Step([batch], 5, 1, int((batch.target != PAD).sum()), 70)
    twice = Step([batch, batch], 10, 2, 2 * once.target_tokens, 140)
    assert relative(*(gradients(make_train_step(make_config(*DROPOUT)), step) for step in (once, twice))) > 0.1
    exact = make_config("model.dropout=0")
    assert relative(*(gradients(make_train_step(exact), step) for step in (once, twice))) < 1e-5


# ------------------------------------------------------------------------ the moving average


def test_the_average_follows_its_recurrence(make_config: MakeConfig) -> None:
    """Its memory is short at first, or the random weights of the beginning would stay in it for long."""
    of = make_train_step(make_config("training.ema_decay=0.3", "model.tie=all"))
    assert of.average is not None
    average = {name: weight.double() for name, weight in weights(of).items()}
    for number in range(1, 6):
        learn(of, make_step(number), number)
        now = {name: weight.double() for name, weight in weights(of).items()}
        decay = [2 / 11, 3 / 12, 0.3, 0.3, 0.3][number - 1]
        average = {name: decay * average[name] + (1 - decay) * weight for name, weight in now.items()}
    assert relative(now, average) > 1e-3
    got = {name: weight.detach().double() for name, weight in of.average.named_parameters()}
    assert relative(got, average) < 1e-6


# ------------------------------------------------------------------------ precision

SMOOTH = ("model.dropout=0", "model.activation=swish")  # near its step, the gradient of relu is another one


@pytest.mark.parametrize(("precision", "least", "most"), [("bfloat16", 1e-3, 0.015), ("float16", 1e-4, 2e-3)])
def test_a_step_in_half_precision_comes_near_one_in_float32(
    make_config: MakeConfig, precision: str, least: float, most: float
) -> None:
    whole, half = (
        make_train_step(make_config(*SMOOTH, f"training.precision={kind}")) for kind in ("float32", precision)
    )
    error = relative(gradients(half, make_step()), gradients(whole, make_step()))
    assert least < error < most  # not float32 in disguise
    assert half.gradient_norm is not None and whole.gradient_norm is not None
    torch.testing.assert_close(half.gradient_norm, whole.gradient_norm, rtol=most, atol=0)
    torch.testing.assert_close(half.losses, whole.losses, rtol=most, atol=0)
    assert {weight.dtype for weight in weights(half).values()} == {torch.float32}


def scaled(of: TrainStep, scale: float) -> TrainStep:
    of.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    return of


@pytest.mark.parametrize("clip", [None, 0.05])
def test_the_norm_does_not_depend_on_the_loss_scale(make_config: MakeConfig, clip: float | None) -> None:
    """Nor does what is clipped: the gradient is freed of the scale before."""
    overrides = (*SMOOTH, f"training.clip_norm={'null' if clip is None else clip}")
    exact = make_train_step(make_config(*overrides))
    expected = gradients(exact, make_step())
    assert exact.gradient_norm is not None
    for scale in (2.0**8, 2.0**14):
        of = scaled(make_train_step(make_config("training.precision=float16", *overrides)), scale)
        got = gradients(of, make_step())
        assert of.gradient_norm is not None
        torch.testing.assert_close(of.gradient_norm, exact.gradient_norm, rtol=5e-3, atol=0)
        total = torch.nn.utils.get_total_norm(list(got.values()))
        torch.testing.assert_close(total, of.gradient_norm if clip is None else torch.tensor(clip), rtol=1e-4, atol=0)
        assert relative(got, expected) < 5e-3


def overflowing_scale(of: TrainStep) -> None:
    scaled(of, 2.0**60)


def overflowing_weights(of: TrainStep) -> None:
    of.model.encoder[0].feed_forward.outer.weight.data.mul_(1e6)


@pytest.mark.parametrize(
    ("break_it", "overrides"), [(overflowing_scale, ()), (overflowing_weights, ("training.clip_norm=1",))]
)
def test_a_step_that_overflows_is_left_out_and_the_scale_halved(
    make_config: MakeConfig, break_it: Callable[[TrainStep], None], overrides: tuple[str, ...]
) -> None:
    of = make_train_step(make_config("training.precision=float16", *overrides))
    learn(of, make_step())
    break_it(of)
    before, moments = weights(of), copy.deepcopy([*of.optimizer.state.values()])
    scale = of.scaler.get_scale()
    for number in (2, 3):
        assert not learn(of, make_step(number), number)
        scale /= 2
        assert of.scaler.get_scale() == scale
    assert same(weights(of), before)
    for old, new in zip(moments, of.optimizer.state.values(), strict=True):
        assert same(old, new)
    assert of.losses.isfinite().all()


# ------------------------------------------------------------------------ in a run


def trainer(config: Config, **more: Any) -> Trainer:
    return Trainer(config, training_data(config), CPU, **more)


def rows(run: Path) -> list[dict[str, float]]:
    return [row for row in rows_of(run / "metrics.jsonl") if "loss" in row]


QUICK = ("training.validation_bleu=false", "training.validate_every=100", "training.checkpoint_every=100")


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_row_of_metrics_says_how_training_does(make_config: MakeConfig, tmp_path: Path, precision: str) -> None:
    ended = trainer(make_config(f"training.precision={precision}", *QUICK, "training.max_steps=8"))
    ended.run()
    logged = rows(tmp_path / "run")
    assert [row["step"] for row in logged] == [4, 8]
    for row in logged:
        assert row["gradient_norm"] > 0
        assert row["tflops"] > 0
        assert 0 <= row["data_wait"] <= 1
        assert 0 <= row["padding"] < 1
        assert ({"loss_scale", "overflows"} <= row.keys()) == (precision == "float16")
    steps = [step for step, _ in zip(ended.batches.epoch(0), range(4), strict=False)]
    tokens = sum(step.source_tokens + step.target_tokens for step in steps)
    assert logged[0]["padding"] == pytest.approx(1 - tokens / sum(step.padded_tokens for step in steps))
    assert ended.train_step.gradient_norm is not None
    assert logged[-1]["gradient_norm"] == float(ended.train_step.gradient_norm)


def overflowing(config: Config, scale: float) -> tuple[Trainer, list[bool]]:
    """A trainer that begins with a loss scale, and whether each of its steps was learned."""
    run = trainer(config)
    scaled(run.train_step, scale)
    learned: list[bool] = []
    learn_step = run.train_step.run

    def noted(*arguments: Any, **more: Any) -> bool:
        learned.append(learn_step(*arguments, **more))
        return learned[-1]

    run.train_step.run = noted  # type: ignore[method-assign]
    return run, learned


def test_a_scale_that_falls_without_end_stops_training(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config("training.precision=float16", "training.max_steps=100", *QUICK)
    run, learned = overflowing(config, 2.0**-12)
    overflowing_weights(run.train_step)
    with pytest.raises(NmtError, match=r"no longer a number at step 4; no checkpoint .* bfloat16"):
        run.run()
    assert learned == [False] * 4
    assert not list((tmp_path / "run").glob("**/step-*"))


def test_the_clock_of_max_seconds_goes_on_through_restarts(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(*QUICK, "training.max_seconds=1000")
    monkeypatch.setenv(STARTED, str(time.time() - 1001))
    assert train(config, "cpu").agreed
    assert [path.name for path in (tmp_path / "run" / "state").glob("step-*")] == ["step-00000001.safetensors"]
