"""Other numbers than float32 give nearly the same, in whatever autocast the caller is."""

import contextlib
import copy
import dataclasses
from pathlib import Path

import pytest
import torch
from helpers.export_models import make_model
from helpers.translators import CPU, LINES, MODEL, SETTINGS, VOCABULARY, new_translator

import nmt
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands import average
from nmt.commands.validate import Validator
from nmt.config.language_pairs import LanguagePair
from nmt.data.cleaning.source_text import SourceText
from nmt.data.prepare import ValidationSet
from nmt.data.subwords.encoding import encode_pairs
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translator
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.loading import model_loader


@pytest.fixture(autouse=True)
def float16_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused there because it is slow; the computation is that of CUDA."""
    choose = model_loader.search_type
    monkeypatch.setattr(
        model_loader,
        "search_type",
        lambda name, *others: torch.float16 if name == "float16" else choose(name, *others),
    )


def prepared(precision: str, models: int = 1) -> Translator:
    translator = new_translator()
    each = [model_loader.prepare(copy.deepcopy(MODEL), CPU, precision) for _ in range(models)]
    translator.engine = PyTorchEngine(each, CPU)
    return translator


@pytest.mark.parametrize(
    ("precision", "error", "models", "autocast"),
    [
        ("model", 1e-4, 1, torch.float16),
        ("float16", 0.05, 1, None),
        ("int8", 0.5, 1, torch.float16),
    ],
)
def test_scores_are_close_to_the_models_own(
    precision: str, error: float, models: int, autocast: torch.dtype | None
) -> None:
    """Whatever the caller's autocast."""
    plain, other = new_translator(), prepared(precision, models)
    targets = LINES[::-1]
    expected = plain.score(LINES, targets)
    with torch.autocast("cpu", autocast) if autocast else contextlib.nullcontext():
        found, texts, aligned = other.score(LINES, targets), other.translate(LINES), other.hypotheses(LINES, 2)
        weights = other.hypotheses(LINES, alignment=True)
    for one, another in zip(found, expected, strict=True):
        assert one.token_scores == pytest.approx(another.token_scores, abs=error)
    if models == 1:
        assert (found != expected) == (precision not in ("model", "float32"))
    assert texts == [best.text for best, _ in aligned]
    for [one], [best, _] in zip(weights, aligned, strict=True):
        assert one.pieces == best.pieces
        assert all(sum(row) == pytest.approx(1, abs=0.02) for row in one.alignment)
    # Outside the caller's autocast it is the same, bit for bit.
    again = prepared(precision, models)
    assert (again.score(LINES, targets), again.hypotheses(LINES, 2)) == (found, aligned)


def test_logits_of_16_bit_models_are_float32() -> None:
    """Rounded to 16 bits, many of them would be equal."""
    model = model_loader.prepare(copy.deepcopy(MODEL), CPU, "bfloat16")
    hidden = torch.randn(50, 16).bfloat16()
    found = model.scores(hidden)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, hidden.float() @ MODEL.output_weight.T)
    assert {weight.dtype for name, weight in model.named_parameters() if name != "output.weight"} == {hidden.dtype}


@pytest.mark.parametrize(
    ("precision", "trained_in", "device", "expected"),
    [
        ("model", "bfloat16", "cpu", torch.float32),
        ("model", "bfloat16", "cuda:1", torch.bfloat16),
        ("int8", "bfloat16", "cpu", torch.float32),
    ],
)
def test_the_type_of_search(precision: str, trained_in: str, device: str, expected: torch.dtype) -> None:
    assert model_loader.search_type(precision, trained_in, torch.device(device)) == expected


def save(path: Path) -> Path:
    settings = dataclasses.replace(SETTINGS, training=dataclasses.replace(SETTINGS.training, precision="bfloat16"))
    model_file.save(path, Checkpoint(settings, VOCABULARY, dict(MODEL.named_parameters()), {}))
    return path


def test_load_converts_to_the_setting(tmp_path: Path) -> None:
    path = save(tmp_path / "model.safetensors")
    for overrides, expected in ((["decoding.precision=bfloat16"], torch.bfloat16), ([], torch.float32)):
        translator = nmt.load(path, "cpu", overrides=overrides, ensemble=[path])
        assert [model.target_embedding.weight.dtype for model in translator.engine.models] == [expected] * 2
        assert len(translator.translate(LINES)) == len(LINES)


def test_the_lengths_of_the_training_text_are_known_to_every_engine(tmp_path: Path) -> None:
    """From the model file, and from an exported folder; a setting replaces them; an older file has none."""
    made = make_model("decoding.max_source_tokens=null")
    line, known = "One two. Three four.  Nine.", SourceText(longest=200, several=0)
    path, old, exported = tmp_path / "a.safetensors", tmp_path / "old.safetensors", tmp_path / "exported"
    checkpoint = dataclasses.replace(made, provenance=model_file.with_source_text(known))
    model_file.save(path, checkpoint)
    model_file.save(old, made)
    exported.mkdir()
    ctranslate2.write(exported, checkpoint)
    every = [(path, "torch"), (path, "ctranslate2"), (exported, "auto")]
    texts = set()
    for model, engine in every:
        translator = nmt.load(model, "cpu", overrides=[f"decoding.engine={engine}"])
        assert translator.source_text == known
        texts.add(translator.translate([line])[0])
        assert translator.counts.parts == 3
        whole = nmt.load(model, "cpu", overrides=[f"decoding.engine={engine}", "decoding.max_source_tokens=100"])
        assert whole.source_text == SourceText(100, 100) and whole.translate([line]) != [min(texts)]
        assert whole.counts.parts == 0
    assert len(texts) == 1
    translator = nmt.load(old, "cpu")
    assert translator.source_text is None and translator.longest_part == translator.longest_source == 256
    assert nmt.load(path, "cpu").longest_part == 200


@pytest.mark.usefixtures("validating_in_16_bits")
def test_validation_and_averaging_search_a_converted_copy(tmp_path: Path) -> None:
    """The model in training stays as it is."""
    training = dataclasses.replace(SETTINGS.training, precision="bfloat16")
    pairs = [(line, line) for line in LINES]
    held_out = ValidationSet("en-de", LanguagePair("en", "de"), (), pairs, encode_pairs(pairs, VOCABULARY))
    validator = Validator(held_out, VOCABULARY, dataclasses.replace(SETTINGS, training=training))
    model, before = copy.deepcopy(MODEL).train(), copy.deepcopy(MODEL.state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        scores, _ = validator.score(validator.engine(model))
    assert model.training
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.dtype == torch.float32 for weight in model.parameters())
    translator = prepared("bfloat16")
    translator.decoding = SETTINGS.search
    assert [text for _, _, text in scores.samples] == translator.translate(LINES[: len(scores.samples)])
    path = save(tmp_path / "step-00000001.safetensors")
    one = average._score("last 1", [path], [validator], CPU)
    assert one.scores.items() >= scores.scores.items()
    found = [score for translation in translator.score(LINES, LINES) for score in translation.token_scores]
    assert one.scores["validation_loss"] == pytest.approx(-sum(found) / len(found), abs=1e-3)


@pytest.fixture
def validating_in_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """`model` means on the CPU what it means on CUDA."""
    monkeypatch.setattr(
        model_loader,
        "search_type",
        lambda name, trained_in, device: getattr(torch, trained_in if name == "model" else name),
    )
