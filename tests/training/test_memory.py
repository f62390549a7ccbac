"""As many tokens as fit: a step in the fewest parts, never less than the longest pair, and no more than there is."""

import dataclasses
import logging
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt import machine
from nmt.commands.train import train, training_data
from nmt.config import schema
from nmt.config.schema import Config
from nmt.data.batches.packed_steps import packed_length
from nmt.data.subwords.vocabulary import PAD
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.files import tensors
from nmt.models import build
from nmt.models.transformer.model import Transformer
from nmt.training import memory
from nmt.training import trainer as trainer_module
from nmt.training.memory import largest_micro_batch, peak_bytes
from nmt.training.objective import Objective
from nmt.training.trainer import Trainer
from nmt.training.validation import validate

MakeConfig = Callable[..., Config]
GIBIBYTE = 1 << 30


def objective(*, recompute: bool = False, layers: int = 2, vocabulary: int = 40) -> Objective:
    torch.manual_seed(0)
    sizes = schema.TransformerConfig(d_model=16, feed_forward=32, layers=layers, heads=2)
    model = Transformer(sizes, vocabulary, vocabulary, PAD)
    model.recompute = recompute
    return Objective(model, schema.TrainingConfig())


def adam_bytes(of: Objective) -> int:
    """Gradients and two moments, which a step needs beside the activations."""
    return 3 * sum(weight.nbytes for weight in of.parameters())


def bytes_per_token(of: Objective, tokens: int, longest: int) -> float:
    """Bytes that a padded token takes beside what does not depend on their number, the gradients of the weights."""
    peak_bytes(of, tokens, longest)  # whatever is made once
    return (peak_bytes(of, tokens, longest) - adam_bytes(of) / 3) / tokens


def fitting(
    batch_tokens: int,
    longest: int,
    capacity: int,
    ranks: Ranks = Ranks(),  # noqa: B008 (frozen)
    mean: float | None = None,
) -> int:
    """The result on a device that holds `capacity` tokens at once. mean: for packed batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_estimate", lambda *_: lambda tokens: tokens <= capacity)
        of = objective(layers=1)
        of.packed = mean is not None
        return largest_micro_batch(of, batch_tokens, longest, mean or 0.0, ranks)


# ------------------------------------------------------------------------ the search


@given(st.integers(1, 3000), st.data())
@settings(deadline=None, max_examples=15)
def test_a_step_is_cut_into_the_fewest_equal_parts_that_fit(batch_tokens: int, data: st.DataObject) -> None:
    longest = data.draw(st.integers(1, batch_tokens))
    capacity = data.draw(st.integers(longest, 2 * batch_tokens))
    parts = next(n for n in range(1, batch_tokens + 1) if max(longest, -(-batch_tokens // n)) <= capacity)
    assert fitting(batch_tokens, longest, capacity) == max(longest, -(-batch_tokens // parts))


@given(st.integers(1, 30_000), st.data())
@settings(deadline=None, max_examples=50)
def test_a_packed_step_has_the_logged_number_of_parts(batch_tokens: int, data: st.DataObject) -> None:
    longest = data.draw(st.integers(1, batch_tokens))
    mean = data.draw(st.floats(1, longest))
    capacity = data.draw(st.integers(longest + 128, 2 * batch_tokens + 128))
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr(memory.log, "info", lambda text, *arguments: said.append(text % arguments))
        tokens = fitting(batch_tokens, longest, capacity, mean=mean)
    assert longest <= tokens <= min(capacity, batch_tokens)
    length = packed_length(batch_tokens, tokens, 1, longest, mean)
    assert length <= capacity + 127
    parts = -(-batch_tokens // (length - math.ceil(mean) if length < batch_tokens else length))
    assert said[-1].endswith("a complete step" if parts == 1 else f" tokens, {parts} to a step")


def test_a_packed_part_has_room_for_one_sentence_more() -> None:
    assert fitting(25_000, 200, capacity=6_500, mean=27.3) == 6_400  # 6,250 and 28, in whole tiles
    assert fitting(25_000, 200, capacity=6_300, mean=27.3) == 5_120  # of five parts
    assert fitting(25_000, 200, capacity=256, mean=100.0) == 256  # the smallest: the longest sentence, in whole tiles


def test_where_the_longest_pair_does_not_fit_that_is_an_error() -> None:
    message = (
        r"training\.micro_batch_tokens: auto: one pair of 50 subwords .*"
        r"data\.max_length, .*training\.activation_checkpointing: true"
    )
    with pytest.raises(NmtError, match=message):
        fitting(100, longest=50, capacity=49)


@dataclass(frozen=True)
class BesideASmallerOne(Ranks):
    """A rank whose neighbour has to cut its steps into five parts."""

    def all_reduce_max_async(self, number: Callable[[], int]) -> Callable[[], int]:
        """The larger of the two numbers."""
        return lambda: max(number(), 5)


def test_every_rank_gets_what_the_smallest_device_holds() -> None:
    assert fitting(1000, 10, capacity=1000, ranks=BesideASmallerOne()) == 200
    assert fitting(1000, 10, capacity=100, ranks=BesideASmallerOne()) == 100


# ------------------------------------------------------------------------ what a cell takes


def test_recomputed_layers_take_less() -> None:
    assert bytes_per_token(objective(recompute=True), 1024, 16) < bytes_per_token(objective(), 1024, 16) / 2


@pytest.mark.parametrize(("recompute", "layers"), [(False, 1), (True, 4)])
def test_what_is_said_to_fit_does(recompute: bool, layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The passes run within the memory reported as free, with Adam's two moments beside them."""
    of = objective(recompute=recompute, layers=layers)
    available = 24 << 20
    monkeypatch.setattr(memory, "available_memory", lambda: available)
    tokens = largest_micro_batch(of, 100_000, 20, 20.0, Ranks())
    assert 100 < tokens < 100_000
    assert peak_bytes(of, tokens, 20) + adam_bytes(of) * 2 // 3 <= available


# ------------------------------------------------------------------------ a step that was asked for


def sized(**sizes: Any) -> tuple[Config, Objective]:
    """Of 300 subwords."""
    whole = schema.Config(run_dir="", data=schema.DataConfig("en", "de", ()), model=schema.TransformerConfig(**sizes))
    torch.manual_seed(0)
    return whole, Objective(Transformer(whole.model, 300, 300, PAD), whole.training)


SMALL = {"d_model": 32, "feed_forward": 64, "layers": 2, "heads": 2}


@pytest.mark.parametrize(
    "sizes",
    [
        {"feed_forward": 512, "layers": 4, "activation": "gelu", "activation_dropout": 0.1},
        {"attention_dropout": 0.1, "heads": 8, "norm": "pre", "key_size": 40, "value_size": 24},
    ],
)  # fmt: skip
def test_the_count_is_never_less_than_what_is_measured_nor_far_more(sizes: dict[str, Any]) -> None:
    _, of = sized(**SMALL | sizes)
    peak_bytes(of, 2048, 32)  # whatever is made once
    needed = peak_bytes(of, 4096, 32) - peak_bytes(of, 2048, 32)
    counted = of.model.activation_bytes(4096, 32) - of.model.activation_bytes(2048, 32)
    assert needed <= counted <= 4 * needed


def check(
    whole: Config, of: Objective, tokens: int, lengths: tuple[int, ...] = (20,) * 100_000, ranks: int = 1
) -> None:
    memory.check_step(whole.training, of, tokens, np.array(lengths, np.int32), ranks)


def test_a_step_that_cannot_fit_is_refused_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, of = sized(**SMALL)
    available = 100 << 20
    monkeypatch.setattr(memory, "available_memory", lambda: available)
    monkeypatch.setattr(memory, "_PROBE_TOKENS", 128)
    check(whole, of, 1000)
    said = r"training\.batch_tokens: 1,000,000 tokens .* [1-9][0-9.]* GiB .* 0\.1 GiB are free: .* to auto"
    with pytest.raises(NmtError, match=said):
        check(whole, of, 1_000_000)
    check(whole, of, 1_000_000, lengths=(20,) * 50)  # there is not that much text
    check(whole, of, 1_000_000, lengths=())  # no pair fits: the batches say it
    micro = dataclasses.replace(
        whole, training=schema.TrainingConfig(batch_tokens=9_000_000, micro_batch_tokens=1_000_000)
    )
    with pytest.raises(NmtError, match=r"training\.micro_batch_tokens: 1,000,000 tokens"):
        check(micro, of, 1_000_000)


def test_a_step_that_fits_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the count that errs on the large side says: a tenth more than is measured is enough."""
    whole, of = sized(**SMALL)
    peak_bytes(of, 1000, 20)
    enough = peak_bytes(of, 20_000, 20) + 3 * sum(weight.nbytes for weight in of.parameters())
    assert of.model.activation_bytes(20_000, 20) > 1.1 * enough
    monkeypatch.setattr(memory, "_PROBE_TOKENS", 512)
    for share, ranks, fits in ((1.1, 1, True), (0.8, 1, False), (1.1, 2, False), (2.2, 2, True)):
        monkeypatch.setattr(memory, "available_memory", lambda share=share: int(share * enough))
        with nullcontext() if fits else pytest.raises(NmtError):
            check(whole, of, 20_000, ranks=ranks)


def test_ranks_on_one_machine_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, of = sized(**SMALL)
    built = build.build_on_meta(whole.model, whole.vocabulary.size, whole.vocabulary.size, PAD)
    of_a_model = 16 * built.parameter_counts()["total"]  # weights, gradients and two moments in float32
    monkeypatch.setattr(memory, "available_memory", lambda: int(1.5 * of_a_model))
    memory.check_model(whole, torch.device("cpu"), 1)
    with pytest.raises(NmtError, match="lower the sizes"):
        memory.check_model(whole, torch.device("cpu"), 2)
    found = {}
    for ranks in (1, 2):
        monkeypatch.setattr(memory, "available_memory", lambda ranks=ranks: ranks * (24 << 20))
        found[ranks] = largest_micro_batch(of, 100_000, 20, 20.0, Ranks(local_size=ranks))
    assert found[1] == found[2] < 100_000


@pytest.mark.parametrize(
    ("device", "free", "least", "expected"),
    [
        ("cuda", 80 * GIBIBYTE, 512, 32_000),
        ("cuda", 80 * GIBIBYTE, 50_000, 50_000),
        ("cuda", GIBIBYTE, 512, 4_200),
        ("cuda", GIBIBYTE, 25_000, 25_000),
        ("cpu", 80 * GIBIBYTE, 512, 512),
    ],
)
def test_validation_batches_on_a_gpu_are_large_where_memory_allows(
    monkeypatch: pytest.MonkeyPatch, device: str, free: int, least: int, expected: int
) -> None:
    """Of a model of which a token needs up to 95 kB in both passes."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, free))
    model = Transformer(schema.TransformerConfig(d_model=128, feed_forward=512, layers=4, heads=4), 40, 40, PAD)
    found = memory.validation_tokens(model, torch.device(device), 60, least, Ranks())
    assert found == pytest.approx(expected, rel=0.3) and (found == expected or free == GIBIBYTE)


def test_larger_validation_batches_give_the_same_loss(make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    config, losses, batches = make_config("training.micro_batch_tokens=64"), list[float](), list[int]()
    for tokens in (64, 32_000):
        monkeypatch.setattr(trainer_module, "validation_tokens", lambda *_, tokens=tokens: tokens)
        trainer = Trainer(config, training_data(config), torch.device("cpu"))
        losses.append(validate(trainer.train_step, trainer.validation, None).scores["validation_loss"])
        batches.append(len(list(trainer.validation[0][1].epoch(0))))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert batches[0] > 2 and batches[1] == 1


def test_a_model_that_cannot_fit_is_refused_before_anything_is_built(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config("model.feed_forward=1000000", "model.d_model=400000", f"data.store_dir={tmp_path / 'store'}")
    with pytest.raises(NmtError, match=r"about [0-9,]{13,} parameters: it needs .* lower the sizes in"):
        train(config, "cpu")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory"),
         r"out of memory at step 1 with 512 tokens .* lower training\.micro_batch_tokens"),
        (MemoryError(), "out of memory at step 1"),
        (RuntimeError("another"), "^another$"),
    ],
)  # fmt: skip
def test_memory_that_runs_out_is_one_line_and_no_other_error_is_taken_for_it(
    make_config: MakeConfig, error: Exception, said: str
) -> None:
    def run_out(*_: object, **__: object) -> bool:
        raise error

    trainer = Trainer(make_config(), training_data(make_config()), torch.device("cpu"))
    trainer.train_step.run = run_out  # type: ignore[method-assign]
    with pytest.raises((NmtError, RuntimeError), match=said):
        trainer.run()


# ------------------------------------------------------------------------ the machine


@pytest.mark.parametrize(
    ("limit", "expected"), [("max", 3 * GIBIBYTE), (str(2 * GIBIBYTE), GIBIBYTE), (str(9 * GIBIBYTE), 3 * GIBIBYTE)]
)
def test_the_least_of_the_machines_and_the_groups_memory_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, expected: int
) -> None:
    def path(name: str) -> Path:
        return tmp_path / name.strip("/").replace("/", "-")

    path("/sys/fs/cgroup").mkdir()
    path("/proc/meminfo").write_text(f"MemTotal: 99 kB\nMemFree: 1 kB\nMemAvailable:  {3 << 20} kB\nBuffers: 2 kB\n")
    (path("/sys/fs/cgroup") / "memory.max").write_text(f"{limit}\n")
    (path("/sys/fs/cgroup") / "memory.current").write_text(f"{GIBIBYTE + 4096}\n")
    (path("/sys/fs/cgroup") / "memory.stat").write_text("anon 1\ninactive_file 4096\nactive_file 7\n")
    monkeypatch.setattr(machine, "Path", path)
    assert memory.available_memory() == expected


# ------------------------------------------------------------------------ in a run


def run(config: Config) -> Trainer:
    trainer = Trainer(config, training_data(config), torch.device("cpu"))
    trainer.run()
    return trainer


def test_a_run_keeps_the_split_that_it_began_with(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Dropout's masks depend on the split: where more or less memory is free, a resumed run must not split anew."""
    caplog.set_level(logging.INFO, "nmt")
    some = ("training.micro_batch_tokens=auto", "training.validation_bleu=false")

    def free(tokens: int) -> None:
        monkeypatch.setattr(memory, "_estimate", lambda *_: lambda asked: asked <= tokens)

    free(150)
    whole = run(make_config(f"run_dir={tmp_path / 'whole'}", *some))
    assert whole.micro_batch_tokens == 128
    parts = make_config(f"run_dir={tmp_path / 'parts'}", *some)
    for tokens, steps in ((150, 5), (10_000, 10), (100, 20)):
        free(tokens)
        caplog.clear()
        assert run(dataclasses.replace(parts, training=dataclasses.replace(parts.training, max_steps=steps)))
        assert ("128 tokens, as when the run began" in caplog.text) == (tokens != 150)
        assert ("may not fit into the memory that is free now" in caplog.text) == (tokens < 128)
    one, other = (
        tensors.read(tmp_path / name / "state" / "step-00000020.safetensors")[0] for name in ("whole", "parts")
    )
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
