"""A model file in CTranslate2 gives nearly what PyTorch gives; what it does not have is left to PyTorch as a whole."""

import logging
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import environment
from helpers.export_models import LINES, MARIAN, SEPARATE, engine_of, make_model
from helpers.model_files import make_checkpoint

import nmt
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import DecodingConfig, RecurrentConfig
from nmt.data.subwords.vocabulary import EOS
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.markup.marked_text import MarkedText
from nmt.decoding.search.options import SearchOptions
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.files import packages
from nmt.interop.ctranslate2 import engine as ctranslate2_engine
from nmt.interop.ctranslate2 import files
from nmt.interop.ctranslate2.engine import CTranslate2Engine, from_model_file
from nmt.loading import opened_model

VARIANTS = [
    (),
    SEPARATE,
    ("vocabulary.shared=false", "model.tie=none"),
    ("model.norm=pre", "model.activation=gelu", "model.bias=false"),
    ("model.positions=learned", "model.max_positions=300"),
    ("model.positions=rotary", "model.norm=pre", "model.key_size=6", "model.value_size=11"),
    ("model.key_size=5", "model.value_size=20"),
    MARIAN,
]


def save(made: Checkpoint, folder: Path) -> Path:
    model_file.save(folder / "model.safetensors", made)
    return folder / "model.safetensors"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(make_model(), tmp_path)


def both_engines(made: Checkpoint) -> tuple[CTranslate2Engine, PyTorchEngine]:
    pytorch = engine_of(made)
    with tempfile.TemporaryDirectory() as folder:
        loaded = model_file.load(save(made, Path(folder)))
    return from_model_file("it", loaded, made.config, lambda: pytorch), pytorch


def random_sources(vocabulary_size: int, count: int) -> list[SearchInput]:
    chance = random.Random(1)
    lengths = [1 + number % 10 for number in range(count)]
    subwords = range(EOS + 1, vocabulary_size)
    return [SearchInput(chance.choices(subwords, k=length), length + 12) for length in lengths]


@pytest.mark.parametrize(("beam_size", "length_penalty"), [(1, 0.6), (4, 0.6), (5, 2.0)])
def test_98_of_100_outputs_are_equal(beam_size: int, length_penalty: float) -> None:
    """Of those that end by themselves: at the length limit, random models differ more."""
    options = SearchOptions(
        DecodingConfig(beam_size=beam_size, length_penalty=length_penalty), n_best=min(2, beam_size)
    )
    compared = equal = 0
    for overrides in VARIANTS:
        made = make_model(*overrides)
        engine, pytorch = both_engines(made)
        sources = random_sources(len(made.vocabulary.source), 60)
        results, expected = (each.search(sources, options, 1000) for each in (engine, pytorch))
        for source, hypotheses, expected_ones in zip(sources, results, expected, strict=True):
            assert len(hypotheses) == len(expected_ones) and hypotheses[0].score >= hypotheses[-1].score
            best, expected_best = hypotheses[0], expected_ones[0]
            if best.tokens == expected_best.tokens:
                assert best.token_scores == pytest.approx(expected_best.token_scores, abs=5e-4)
                assert best.score == pytest.approx(expected_best.score, abs=2e-4)
            if len(expected_best.tokens) < source.longest:
                compared += 1
                equal += best.tokens == expected_best.tokens
    assert compared > 100 and equal >= 0.98 * compared


def test_the_length_limit_of_a_batch_is_the_largest_and_longer_outputs_are_cut() -> None:
    engine, _ = both_engines(make_model(*SEPARATE))  # whose outputs are long
    engine.model.workers = 1
    options = SearchOptions(n_best=4)
    long, short = SearchInput([50] * 10, 2), SearchInput([60] * 3, 9)
    of_long, of_short = engine.search([long, short], options, 16_000)
    assert all(len(hypothesis.tokens) <= 2 for hypothesis in of_long)
    [alone] = engine.search([short], options, 16_000)
    assert max(len(hypothesis.tokens) for hypothesis in alone) == 9
    assert [each.score for each in of_short] == pytest.approx([each.score for each in alone], abs=1e-4)
    [[quick]] = engine.search([short], replace(options, n_best=1, token_scores=False), 16_000)
    assert quick.score == pytest.approx(alone[0].score, abs=1e-4), "with the price of the end, also at the limit"
    assert engine.search([], options, 100) == []


def test_with_own_limits_an_output_does_not_depend_on_the_lines_beside_it() -> None:
    engine, _ = both_engines(make_model(*SEPARATE))
    options = SearchOptions(DecodingConfig(max_extra_tokens=2), n_best=4)
    sources = [replace(source, longest=len(source.ids) + 2) for source in random_sources(300, 40)]
    together = engine.search(sources, options, 16_000)
    alone = [engine.search([source], options, 16_000)[0] for source in sources]
    assert [[each.tokens for each in hypotheses] for hypotheses in together] == [
        [each.tokens for each in hypotheses] for hypotheses in alone
    ]


def test_few_batches_are_begun_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process ends only after all that CTranslate2 has been given: also when Ctrl-C interrupts it."""
    engine, _ = both_engines(make_model())
    engine.model.workers, translate, begun, searched = 2, engine.model.translator.translate_batch, [], list[int]()

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(translator, name)

        def translate_batch(self, sources: Any, *more: Any, **options: Any) -> Any:
            begun.append(len(sources))
            return translate(sources, *more, **options)

    translator = engine.model.translator
    monkeypatch.setattr(engine.model, "translator", Counting())
    engine.on_searched = searched.append
    finish = engine.begin_search(random_sources(300, 40), SearchOptions(DecodingConfig(beam_size=1)), 60)
    assert len(begun) == 4
    finish()
    assert len(begun) > 8 and searched == begun and sum(begun) == 40


def loaded(path: Path, caplog: pytest.LogCaptureFixture, *overrides: str, **more: object) -> tuple[Translator, str]:
    caplog.clear()
    with caplog.at_level(logging.INFO, "nmt"):
        translator = nmt.load(path, "cpu", overrides=[f"decoding.{one}" for one in overrides], **more)  # type: ignore[arg-type]
    [line] = caplog.messages
    return translator, line


def test_one_line_says_which_engine_it_is_and_why(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    for overrides in ((), ("engine=ctranslate2",), ("precision=float32",)):
        translator, line = loaded(model, caplog, *overrides)
        assert isinstance(translator.engine, CTranslate2Engine) and line == "search: CTranslate2"
    for setting, more, why in (
        ("engine=torch", {}, ""),
        ("no_repeat_ngram=3", {}, "decoding.no_repeat_ngram: 3: with CTranslate2 it must be null"),
        ("precision=bfloat16", {}, "decoding.precision: bfloat16: CTranslate2 searches a model file in float32"),
        ("max_source_tokens=500000", {}, "decoding.max_source_tokens: 500000: too long to convert for CTranslate2"),
        ("engine=auto", {"ensemble": [model]}, "CTranslate2 has no ensembles"),
    ):
        translator, line = loaded(model, caplog, setting, **more)
        assert isinstance(translator.engine, PyTorchEngine)
        assert line == (f"search: PyTorch ({why})" if why else "search: PyTorch")
        if why:
            with pytest.raises(NmtError, match=r"^decoding.engine: ctranslate2 is not possible \(.*\): set decoding"):
                loaded(model, caplog, setting.replace("auto", "ctranslate2"), "engine=ctranslate2", **more)


def test_a_model_that_it_does_not_have_is_left_to_pytorch_before_its_weights_are_read(
    tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recurrent one, or one with a value of a setting that was added to the model alone."""
    monkeypatch.setattr(ctranslate2_engine, "from_model_file", lambda *_: pytest.fail("opened by CTranslate2"))
    monkeypatch.setitem(files.VALUES, "norm", ("other",))  # type: ignore[arg-type]
    why = "model.norm: post: nmt cannot write it for CTranslate2, only other"
    assert loaded(model, caplog)[1] == f"search: PyTorch ({why})"
    recurrent = replace(make_model().config, model=RecurrentConfig(embedding_size=8, hidden_size=8))
    path = save(make_checkpoint(recurrent), tmp_path)
    why = "model.architecture: recurrent: CTranslate2 does not support it"
    assert loaded(path, caplog)[1] == f"search: PyTorch ({why})"


def test_without_the_package_or_on_another_device_pytorch_searches(
    model: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_model.devices, "is_cpu", lambda name: False)
    assert loaded(model, caplog)[1] == "search: PyTorch (CTranslate2 is used on CPUs only: --device cpu)"
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # as an installation that is damaged
    assert not packages.is_installed("ctranslate2")
    why = "CTranslate2 is not installed: pip install 'nmt-toolkit[ctranslate2]'"
    assert loaded(model, caplog)[1] == f"search: PyTorch ({why})"
    monkeypatch.setattr(opened_model, "is_installed", lambda package: True)
    assert loaded(model, caplog)[1].startswith("search: PyTorch (CTranslate2 cannot be loaded (")


def test_a_folder_named_as_the_package_is_not_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ctranslate2").mkdir()
    monkeypatch.delitem(sys.modules, "ctranslate2", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert not packages.is_installed("ctranslate2")


def test_what_it_lacks_is_computed_by_pytorch(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From the weights that were loaded, also when the file is gone. Settings may be replaced after loading."""
    caplog.set_level("INFO", "nmt")
    quick, own = nmt.load(model, "cpu"), nmt.load(model, "cpu", overrides=["decoding.engine=torch"])
    model.unlink()
    assert quick.encode(["one"])[0].tolist() == own.encode(["one"])[0].tolist()
    for translations in zip(*(each.hypotheses(LINES, alignment=True) for each in (quick, own)), strict=True):
        [translation], [expected] = translations
        assert translation.pieces == expected.pieces and translation.source_pieces == expected.source_pieces
        assert (translation.alignment is None) == (expected.alignment is None)
        if expected.alignment is not None:
            for row, expected_row in zip(translation.alignment or [], expected.alignment, strict=True):
                assert row == pytest.approx(expected_row, abs=1e-4)
    prefixes = ["two"] * len(LINES)
    texts = [[best.text for [best] in each.hypotheses(LINES, prefixes=prefixes)] for each in (quick, own)]
    assert texts[0] == texts[1] and texts[0][0].startswith("two")
    for changed in ({"min_length": 5}, {"min_length": 0, "no_repeat_ngram": 1}):
        for translator in (quick, own):
            translator.decoding = replace(translator.decoding, **changed)  # type: ignore[arg-type]
        assert quick.translate(LINES) == own.translate(LINES)


@pytest.mark.parametrize("factor", [float("nan"), 1e18])
def test_weights_that_are_no_numbers_are_told(tmp_path: Path, factor: float, caplog: pytest.LogCaptureFixture) -> None:
    """Weights of 1e18 are numbers, but the scores are not; greedy search would not notice."""
    caplog.set_level("INFO", "nmt")
    made = make_model()
    path = save(replace(made, weights={name: weight * factor for name, weight in made.weights.items()}), tmp_path)
    with pytest.raises(NmtError, match="line 2: the model's scores are not numbers"):
        nmt.load(path, "cpu", overrides=["decoding.beam_size=1"]).translate(["", "one"])
    assert "not finite numbers" in caplog.text or "the model's scores are not numbers" in caplog.text


def test_tags_are_placed_by_the_alignment(model: Path) -> None:
    lines = MarkedText("<p>one <b>two</b> three</p><p>four</p>", "en", "html").lines
    for engine in ("ctranslate2", "torch"):
        written = nmt.load(model, "cpu", overrides=[f"decoding.engine={engine}"]).with_tags(lines)
        assert [re.findall("<[^<>]*>", text) for text, _ in written] == [["<b>", "</b>"], []]


def test_no_converted_file_remains(model: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "nmt", "translate", str(model), "--device", "cpu"]
    done = subprocess.run(
        command,
        input="one two\n",
        capture_output=True,
        text=True,
        env={**environment(), "TMPDIR": str(temporary)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "search: CTranslate2\n"
    assert done.stdout == nmt.load(model, "cpu").translate(["one two"])[0] + "\n"
    assert not list(temporary.iterdir())
