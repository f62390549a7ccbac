"""The mean of model files: as computed by hand, of the right files, a file at a time, or refused."""

import dataclasses
import gc
import math
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.model_files import make_checkpoint, tokenizer

from nmt.checkpoints import averaging, model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import Config
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.errors import NmtError

MakeConfig = Callable[..., Config]


def save(path: Path, config: Config, seed: int, **provenance: Any) -> Path:
    model_file.save(path, make_checkpoint(config, seed, **provenance))
    return path


@pytest.fixture
def files(make_config: MakeConfig, tmp_path: Path) -> list[Path]:
    """Three files of one run."""
    return [
        save(tmp_path / f"{seed}.safetensors", make_config(), seed, step=10 * seed, run_dir="r", bleu=seed)
        for seed in range(3)
    ]


def respoil(path: Path, **changes: Any) -> None:
    """Write a model file anew with some of its fields changed."""
    model_file.save(path, dataclasses.replace(model_file.load(path), **changes))


@pytest.mark.parametrize("count", [1, 3])
def test_the_mean_is_the_one_computed_by_hand(files: list[Path], count: int) -> None:
    mean = averaging.average(files[:count])
    loaded = [model_file.load(path).weights for path in files[:count]]
    assert mean.weights.keys() == loaded[0].keys() and mean.path is None
    for name, weight in mean.weights.items():
        by_hand = np.mean([weights[name].double().numpy() for weights in loaded], axis=0)
        assert weight.dtype == torch.float32
        np.testing.assert_allclose(weight.numpy(), by_hand, rtol=0, atol=2e-7)  # weights are of the order of 1


def test_one_file_besides_the_mean_is_in_memory_at_a_time(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    load, alive, most = model_file.load, weakref.WeakSet[Any](), []

    class Weights(dict[str, torch.Tensor]):
        """A dict that can be watched."""

        __hash__ = object.__hash__  # type: ignore[assignment]

    def watched(path: Path) -> Checkpoint:
        gc.collect()
        most.append(len(alive))  # of the files before this one
        loaded = load(path)
        weights = Weights(loaded.weights)
        alive.add(weights)
        return dataclasses.replace(loaded, weights=weights)

    monkeypatch.setattr(model_file, "load", watched)
    mean = averaging.average(files[:3])
    assert most == [0] * 3
    assert not isinstance(mean.weights, Weights)


# ------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(("which", "value"), [(0, math.nan), (2, math.inf)])
def test_weights_that_are_no_numbers(files: list[Path], which: int, value: float) -> None:
    weights = dict(model_file.load(files[which]).weights)
    name = "decoder.0.feed_forward.inner.bias"
    weights[name] = weights[name].index_fill(0, torch.tensor([5]), value)
    respoil(files[which], weights=weights)
    with pytest.raises(NmtError, match=rf"{which}\.safetensors: weight {name} .*not finite"):
        averaging.average(files[:3])


@pytest.mark.parametrize(
    "override",
    ["model.heads=4", "model.feed_forward=48"],
)
def test_settings_that_give_weights_another_meaning_shape_or_name(
    files: list[Path], make_config: MakeConfig, override: str
) -> None:
    save(files[1], make_config(override), 1)
    key, value = override.split("=")
    with pytest.raises(NmtError, match=rf"1\.safetensors: its settings differ .*{key}: .* there, {value} here"):
        averaging.average(files)


def test_vocabularies_that_differ(files: list[Path]) -> None:
    """Two of the same size, so that the shapes agree."""
    proto = tokenizer().proto
    other = proto.replace(b"ei", b"qj", 1)
    assert other != proto
    changed = type(tokenizer())(other)
    respoil(files[2], vocabulary=Vocabulary(changed, changed))
    with pytest.raises(NmtError, match=r"2\.safetensors: its vocabulary differs from that of .*0\.safetensors"):
        averaging.average(files)


# ------------------------------------------------------------------------ a run's last and best


@pytest.fixture
def run(make_config: MakeConfig, tmp_path: Path) -> Path:
    """Checkpoints at 5, 10, … 25; all but 15 validated."""
    losses = {5: 3.0, 10: 1.0, 15: None, 20: 1.5, 25: 2.0}
    for step, loss in losses.items():
        validated = {} if loss is None else {"validation_loss": loss}
        path = model_file.checkpoint_path(tmp_path / "run", step)
        save(path, make_config(), step, step=step, best_metric="validation_loss", **validated)
    return tmp_path / "run"


def test_last_and_best(run: Path) -> None:
    for last, best, expected in ((2, None, [20, 25]), (None, 3, [10, 20, 25]), (None, 1, [10])):
        mean = averaging.average(averaging.select_checkpoints(run, last=last, best=best))
        assert sorted(source["step"] for source in mean.provenance["averaged"]) == expected
    with pytest.raises(NmtError, match=r"run: has 5 checkpoints, not 6: use --last 5, or .*training.keep_last"):
        averaging.select_checkpoints(run, last=6, best=None)
    with pytest.raises(NmtError, match=r"run: has 4 validated checkpoints, not 5: use --best 4, .*training.keep_best"):
        averaging.select_checkpoints(run, last=None, best=5)
    with pytest.raises(NmtError, match="no checkpoint here: train first, or give a model file"):
        averaging.select_checkpoints(run.parent, last=3, best=None)
