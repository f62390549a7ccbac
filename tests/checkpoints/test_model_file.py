"""Model files: what was saved comes back, alone and anywhere, and what is none of ours is refused."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.model_files import make_checkpoint, shared_vocabulary, tokenizer

from nmt.checkpoints import model_file
from nmt.config import writer
from nmt.config.schema import Config
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.errors import NmtError
from nmt.files import tensors as tensor_file

MakeConfig = Callable[..., Config]
UNTIED = ("model.tie=none", "vocabulary.shared=false")


def two_vocabularies() -> Vocabulary:
    return Vocabulary(tokenizer(), tokenizer(310))


@pytest.fixture
def file(make_config: MakeConfig, tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    model_file.save(path, make_checkpoint(make_config(), step=12, validation_loss=3.25))
    return path


@pytest.mark.parametrize(("shared", "norm"), [(True, "pre"), (False, "post")])
def test_round_trip(make_config: MakeConfig, tmp_path: Path, shared: bool, norm: str) -> None:
    config = make_config(f"model.norm={norm}", *(() if shared else UNTIED))
    vocabulary = shared_vocabulary() if shared else two_vocabularies()
    provenance = {"step": 7, "bleu": 12.5, "who": "Jörg", "nested": {"list": [1, None, True]}}
    saved = make_checkpoint(config, of=vocabulary, **provenance)
    path = tmp_path / "model.safetensors"
    model_file.save(path, saved)
    loaded = model_file.load(path)
    assert model_file.load_header(path) == (loaded.config, loaded.provenance) == (config, provenance)
    assert loaded.vocabulary.shared is shared
    assert loaded.vocabulary.source.proto == vocabulary.source.proto
    assert loaded.vocabulary.target.proto == vocabulary.target.proto
    assert loaded.weights.keys() == saved.weights.keys()
    assert all(torch.equal(weight, saved.weights[name]) for name, weight in loaded.weights.items())
    kept = sorted(name for name in tensor_file.read(path)[0] if name.startswith("vocabulary"))
    assert kept == (["vocabulary.source"] if shared else ["vocabulary.source", "vocabulary.target"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_weights_that_are_no_finite_numbers_in_float32_are_told(make_config: MakeConfig, dtype: torch.dtype) -> None:
    made = make_checkpoint(make_config())
    weights = {name: weight.to(dtype, copy=True) for name, weight in made.weights.items()}
    largest = 3e38 if dtype == torch.float64 else torch.finfo(dtype).max
    for number, finite in [(math.nan, False), (-math.inf, False), (largest, True), (-largest, True)]:
        weights["decoder.0.feed_forward.inner.weight"][3, 1] = number
        assert replace(made, weights=weights).is_finite is finite


@pytest.mark.parametrize(("tie", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_weights_are_saved_once_and_tied_when_built(
    make_config: MakeConfig, tmp_path: Path, tie: str, matrices: int
) -> None:
    path = tmp_path / "model.safetensors"
    model_file.save(path, make_checkpoint(make_config(f"model.tie={tie}")))
    tensors, _ = tensor_file.read(path)
    of_vocabulary_size = [name for name, tensor in tensors.items() if tensor.shape[0] == 300]
    assert len(of_vocabulary_size) == matrices
    model = model_file.load(path).build()
    weights = [model.source_embedding.weight, model.target_embedding.weight, model.output.weight]
    assert len({weight.data_ptr() for weight in weights}) == matrices


# ------------------------------------------------------------------------ the folder of a run


def save_run(run: Path, config: Config, metric: str, scores: dict[int, float | None]) -> None:
    """A checkpoint a step; a score of None is one that was not validated."""
    for step, score in scores.items():
        provenance = {"step": step, "best_metric": metric} | ({} if score is None else {metric: score})
        model_file.save(model_file.checkpoint_path(run, step), make_checkpoint(config, **provenance))


def steps(paths: list[Path]) -> list[int]:
    return [int(path.stem.removeprefix("step-")) for path in paths]


@pytest.mark.parametrize("metric", ["validation_loss", "bleu"])
def test_last_and_best(tmp_path: Path, metric: str) -> None:
    """A loss is best when lowest, BLEU and chrF when highest; the earlier of two equals comes first. What was not
    validated, or gave no number, is never among them."""
    assert model_file.checkpoints(tmp_path) == model_file.best(tmp_path, 3) == []
    scores = {3: 9.5, 4: math.nan, 20: 2.5, 99_999_999: 4.0, 100_000_000: None, 100_000_001: 4.0}
    of_steps = {
        model_file.checkpoint_path(tmp_path, step): {"best_metric": metric, metric: score}
        for step, score in scores.items()
    }
    (tmp_path / "checkpoints").mkdir()
    for path in of_steps:
        path.touch()
    path.with_name(".step-00000020.safetensors.part").touch()  # a write that was killed
    assert steps(model_file.checkpoints(tmp_path)) == [*scores]
    lowest_first = [20, 99_999_999, 100_000_001, 3]
    highest_first = [3, 99_999_999, 100_000_001, 20]
    assert steps(model_file.ranked(of_steps)) == (lowest_first if metric == "validation_loss" else highest_first)


@pytest.mark.parametrize("metric", ["validation_loss", "bleu"])
def test_the_best_are_those_of_one_validation_set_where_it_decides(metric: str) -> None:
    scores = {1: (1.0, 9.0), 2: (2.0, 5.0), 3: (6.0, 3.0)}  # of the sets one and two
    for best_set, lowest_first in {"one": [1, 2, 3], "two": [3, 2, 1], None: [2, 3, 1]}.items():
        found = {}
        for step, values in scores.items():
            names = ["one", "two"] if step < 3 else ["first", "second"]  # they have been renamed
            sets = [{"name": name, metric: value} for name, value in zip(names, values, strict=True)]
            name = best_set and dict(zip(("one", "two"), names, strict=True))[best_set]
            provenance = {"best_metric": metric, "best_set": name, "validation": sets, metric: sum(values) / 2}
            found[Path(f"step-{step}")] = provenance
        assert steps(model_file.ranked(found)) == lowest_first[:: 1 if metric == "validation_loss" else -1]


def test_only_what_was_validated_as_the_newest_is_ranked() -> None:
    """By the same metric of the same set in the same way; of equal scores the oldest comes first, whatever its name."""
    newest = {"best_metric": "bleu", "bleu": 5.0, "chrf": 50.0, "validation_key": "new"}
    in_sets = {"best_set": "two", "validation": [{"name": "one", "bleu": 9.0}, {"name": "two", "bleu": 5.0}]}
    equal = 99_999_999, 100_000_000  # the later path is the first of the two in the alphabet
    for other in ({"validation_key": "old"}, {"validation_key": None}, {"best_metric": "chrf"}, in_sets):
        of_steps = {3: newest | {"bleu": 4.0}, 5: newest | other, equal[0]: newest, equal[1]: newest}
        found = {Path(f"step-{step:08d}.safetensors"): provenance for step, provenance in of_steps.items()}
        assert steps(model_file.ranked(found)) == [*equal, 3]
        assert steps(model_file.ranked({Path("step-9.safetensors"): newest | other})) == [9]


def test_locate(file: Path, make_config: MakeConfig, tmp_path: Path) -> None:
    run = tmp_path / "another run"
    run.mkdir()
    assert model_file.locate(file) == file
    with pytest.raises(NmtError, match=r"another run: no checkpoint here: train first"):
        model_file.locate(run)
    save_run(run, make_config(), "bleu", {5: 9.0, 10: 1.0})
    assert model_file.locate(run) == model_file.checkpoint_path(run, 10)
    model_file.save(run / "best.safetensors", make_checkpoint(make_config()))
    assert model_file.locate(run) == run / "best.safetensors"
    assert model_file.locate(run / "checkpoints") == run / "best.safetensors"
    assert model_file.locate(tmp_path / "missing") == tmp_path / "missing"  # loading it tells what is wrong


def test_a_run_before_its_first_checkpoint(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config("training.max_steps=90")
    (tmp_path / "config.yaml").write_text(writer.to_yaml(config), encoding="utf-8")
    with pytest.raises(NmtError, match=r"no checkpoint yet .* step 5 \(training\.checkpoint_every: "):
        model_file.locate(tmp_path)


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("transformers", "tokenizer_config.json"),
        ("Bergamot", "model.ende.intgemm.alphas.bin"),
        ("Argos Translate", "translate-en_de-100_0.argosmodel"),
    ],
)
def test_an_exported_folder_is_named_as_such(tmp_path: Path, program: str, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(NmtError, match=f"a folder for {program}, not for nmt: give the model file"):
        model_file.locate(tmp_path)
