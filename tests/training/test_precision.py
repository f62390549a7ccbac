"""The line that names a faster precision: where it is right, and not where it would be wrong."""

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from nmt.commands.train import training_data
from nmt.config.schema import Config, TransformerConfig
from nmt.training import precision as module
from nmt.training import trainer as trainer_module
from nmt.training.precision import faster_precision, speed_of_bfloat16
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
CPU, BASE = torch.device("cpu"), TransformerConfig(d_model=512)


@pytest.mark.parametrize(
    ("precision", "speed", "faster"),
    [
        ("float32", 4.0, "bfloat16"),
        ("float32", 1.2, None),  # of the products; the rest of a step has more copies
        ("float32", 0.5, None),
        ("bfloat16", 0.5, "float32"),
        ("bfloat16", 1.2, None),
        ("bfloat16", 4.0, None),
    ],
)
def test_the_other_one_if_it_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, precision: str, speed: float, faster: str | None
) -> None:
    monkeypatch.setattr(module, "speed_of_bfloat16", lambda: speed)
    assert faster_precision(precision, BASE, CPU) == faster


@pytest.mark.parametrize(
    ("precision", "model", "where"),
    [
        ("float32", BASE, torch.device("cuda")),
        ("bfloat16", BASE, torch.device("mps")),
        ("float16", BASE, CPU),
        ("tf32", BASE, CPU),
        ("float32", TransformerConfig(d_model=64), CPU),  # most of its time is not spent on products
    ],
)
def test_nothing_is_measured_where_it_would_tell_nothing(
    monkeypatch: pytest.MonkeyPatch, precision: str, model: TransformerConfig, where: torch.device
) -> None:
    def measured() -> float:
        raise AssertionError("measured")

    monkeypatch.setattr(module, "speed_of_bfloat16", measured)
    assert faster_precision(precision, model, where) is None


def test_the_fastest_product_of_each_kind_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that only products move: 4 for float32 and 1 for bfloat16, but every fifth is interrupted."""
    clock, products = 0.0, 0

    class Matrix:
        def __init__(self, *_: int, dtype: torch.dtype):
            self.dtype = dtype

        def t(self) -> "Matrix":
            return self

    def product(a: Matrix, _: Matrix) -> None:
        nonlocal clock, products
        products += 1
        clock += (4 if a.dtype == torch.float32 else 1) + 1000 * (products % 5 == 0)

    monkeypatch.setattr(module, "product", product)
    monkeypatch.setattr(module, "_SECONDS", 50_000)
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    monkeypatch.setattr(module, "torch", SimpleNamespace(ones=Matrix, float32=torch.float32, bfloat16=torch.bfloat16))
    assert speed_of_bfloat16() == 4


def test_a_new_run_logs_one_line_and_a_resumed_one_keeps_its_precision(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nmt")
    monkeypatch.setattr(trainer_module, "faster_precision", lambda *_: "bfloat16")
    for steps in (1, 2):
        config = make_config(f"training.max_steps={steps}", "training.validation_bleu=false")
        Trainer(config, training_data(config), CPU).run()
    lines = [message for message in caplog.messages if message.startswith("training.precision:")]
    assert lines == ["training.precision: bfloat16 is probably faster than float32 on this CPU"]
