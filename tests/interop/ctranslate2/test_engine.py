"""A model file in CTranslate2 gives exactly what PyTorch gives, or leaves it to PyTorch, and says so."""

import functools
import importlib.abc
import logging
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.commands import environment
from helpers.export_models import LINES, MARIAN, SEPARATE, engine_of, make_model
from helpers.model_files import make_checkpoint
from helpers.tables import changed
from hypothesis import given, settings
from hypothesis import strategies as st

import nmt
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import RecurrentConfig
from nmt.data.subwords import vocabulary as vocabularies
from nmt.data.subwords.vocabulary import EOS, UNK, Vocabulary
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.options import Hypothesis, SearchOptions
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.files import packages
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.ctranslate2.engine import CTranslate2Engine, certain
from nmt.interop.ctranslate2.model import Output
from nmt.loading import opened_model

OVERRIDES = [
    (),
    SEPARATE,
    ("vocabulary.shared=false", "model.tie=none"),
    ("model.norm=pre", "model.activation=gelu", "model.bias=false"),
    ("model.positions=learned", "model.max_positions=300"),
    ("model.positions=rotary",),
    ("model.positions=rotary", "model.norm=pre", "model.key_size=6", "model.value_size=11"),
    ("model.key_size=5", "model.value_size=20"),
    MARIAN,
]
OPTIONS = SearchOptions()


def save(made: Checkpoint, folder: Path) -> Path:
    model_file.save(folder / "model.safetensors", made)
    return folder / "model.safetensors"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(make_model(), tmp_path)


class Counting(PyTorchEngine):
    """Counts the sources that it searches."""

    searched = 0

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        self.searched += len(sources)
        return super().search(sources, options, batch_tokens)


def exact(made: Checkpoint) -> tuple[CTranslate2Engine, Counting]:
    own = Counting([made.build()], engine_of(made).device)
    with tempfile.TemporaryDirectory() as folder:
        loaded = model_file.load(save(made, Path(folder)))
    return CTranslate2Engine.of_model_file("it", loaded, made.config.search, lambda: own), own


@functools.cache
def variant(overrides: tuple[str, ...]) -> tuple[CTranslate2Engine, PyTorchEngine, Checkpoint]:
    made = make_model(*overrides)
    return *exact(made), made


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """Equal but for rounding; hypotheses whose scores differ by rounding may change places."""
    for its, ours in zip(found, expected, strict=True):
        assert [one.score for one in its] == pytest.approx([one.score for one in ours], abs=2e-4)
        for one, other in zip(its, ours, strict=True):
            if one.tokens != other.tokens:
                last = one.score == pytest.approx(ours[-1].score, abs=2e-4)  # the next one may be as good
                assert last or one.tokens in [each.tokens for each in ours]
                continue
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)
            assert one.token_scores == pytest.approx(other.token_scores, abs=5e-4)


class Waiting:
    """What CTranslate2 has searched when it is waited for, and not sooner."""

    def __init__(self, result: Any):
        self._result, self._waited = result, False

    def done(self) -> bool:
        return self._waited

    def result(self) -> Any:
        self._waited = True
        return self._result.result()


class Queue:
    """A translator of CTranslate2; `begun` are the first results of the batches that it was given, `sizes` theirs."""

    def __init__(self, translator: Any):
        self._translator, self.begun, self.most_running = translator, list[Waiting](), 0
        self.sizes = list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._translator, name)

    def translate_batch(self, *sources: Any, **options: Any) -> list[Waiting]:
        found = [Waiting(result) for result in self._translator.translate_batch(*sources, **options)]
        self.begun.append(found[0])
        self.sizes.append(len(found))
        self.most_running = max(self.most_running, sum(not result.done() for result in self.begun))
        return found


SEVERAL = [SearchInput([10 + number % 7] * (1 + number % 5), 6) for number in range(40)]


def test_searches_that_overlap_share_what_is_begun_at_once() -> None:
    """A process ends only after all that CTranslate2 has been given: also when Ctrl-C interrupts it."""
    engine, _ = exact(make_model())
    engine.model.workers, given = 2, Queue(engine.model.translator)
    engine.model.translator = given  # type: ignore[assignment]
    options = changed(OPTIONS, beam_size=1)
    searched = list[int]()
    engine.on_searched = searched.append
    expected = engine.search(SEVERAL, options, 60)
    batches, given.begun, given.most_running = len(given.begun), [], 0
    assert batches > 8 and searched == given.sizes and sum(searched) == len(SEVERAL)
    first, second = (engine.begin_search(SEVERAL, options, 60) for _ in range(2))
    assert len(given.begun) == 4
    assert_same(first(), expected)
    assert 4 <= sum(not result.done() for result in given.begun) < batches, "the second goes on"
    assert_same(second(), expected)
    assert len(given.begun) == 2 * batches and given.most_running <= 5
    given.begun = []
    left, wanted = (engine.begin_search(SEVERAL, options, 60) for _ in range(2))
    del left
    assert_same(wanted(), expected)
    assert len(given.begun) == 4 + batches, "a search that nobody waits for does not go on"


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_everything_that_is_claimed_is_identical(data: st.DataObject) -> None:
    engine, own, made = variant(data.draw(st.sampled_from(OVERRIDES)))
    beam = data.draw(st.integers(1, 5))
    options = changed(
        OPTIONS,
        beam_size=beam,
        n_best=data.draw(st.integers(1, beam)),
        length_penalty=data.draw(st.sampled_from([0.0, 0.6, 2.0])),
        normalization=data.draw(st.sampled_from(["gnmt", "average", "none"])),
    )
    subwords = st.integers(EOS + 1, len(made.vocabulary.source) - 1)
    source = st.builds(SearchInput, st.lists(subwords, min_size=1, max_size=12), st.integers(0, 25))
    sources = data.draw(st.lists(source, min_size=1, max_size=12))
    tokens = data.draw(st.sampled_from([1, 100, 16_000]))
    found = engine.search(sources, options, tokens)
    assert_same(found, own.search(sources, options, tokens))
    for one, other in zip(engine.search(sources, changed(options, scores=False), tokens), found, strict=True):
        assert [it.tokens for it in one] == [it.tokens for it in other]
    for one, other in zip(engine.search(sources, changed(options, token_scores=False), tokens), found, strict=True):
        assert [it.score for it in one] == pytest.approx([it.score for it in other], abs=2e-4)


def test_most_sources_are_not_left_to_pytorch() -> None:
    engine, own = exact(make_model("decoding.beam_size=4"))
    made = make_model("decoding.beam_size=4")
    sources = [SearchInput(ids, 12 + len(ids)) for ids in made.vocabulary.source.encode(LINES * 5) if ids]
    for beam, n_best in ((1, 1), (4, 1), (4, 2)):
        engine.search(sources, changed(OPTIONS, beam_size=beam, n_best=n_best), 16_000)
    assert own.searched <= len(sources) / 4


def test_long_sources_of_a_rotary_model_are_left_to_pytorch() -> None:
    """CTranslate2 computes the angles in float32: far from the start its scores differ."""
    engine, own = exact(make_model("model.positions=rotary", "decoding.max_source_tokens=2000"))
    short, long = (SearchInput([20] * length, 4) for length in (500, 520))
    engine.search([short], OPTIONS, 16_000)
    assert own.searched == 0
    engine.search([short, long], OPTIONS, 16_000)
    assert own.searched == 1


def test_what_was_not_returned_is_thought_of() -> None:
    """Four had ended; the least likely of the two returned has score -4 / 1 and length 1."""
    none, average = [1.0] * 7, [1.0, *range(1, 7)]
    outputs: list[Output] = [([5], -4.0, True), ([5, 6], -3.0, True)]
    found = certain(outputs, 2, none, 1)
    assert found is not None and [one.tokens for one in found] == [[5, 6]]
    assert certain([([5], -3.0, True), ([5, 6, 7, 8, 9], -7.0, True)], 5, average, 1) is not None
    assert certain([([5], -3.0, True), ([6], -8.9, True)], 5, average, 1) is None  # -8.9 / 6 is better than -3 / 2
    assert certain([], 2, none, 1) is None
    assert certain([([-1], -1.0, True), ([5], -2.0, True)], 2, none, 1) is None
    assert certain([([5], -1.0, True)], 2, none, 2) is None


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_at_the_length_limit_every_live_hypothesis_must_be_known(beam_size: int) -> None:
    """There nmt's search ends all K, of which CTranslate2 returns only some where others have ended before."""
    made = make_model()
    engine, own = exact(made)
    options = changed(OPTIONS, beam_size=beam_size, n_best=beam_size)
    sources = [SearchInput(ids, most) for ids in made.vocabulary.source.encode(LINES) if ids for most in (1, 2, 3, 12)]
    expected = engine_of(made).search(sources, options, 16_000)
    found = engine.search(sources, options, 16_000)
    assert [len(each) for each in found] == [len(each) for each in expected]
    assert_same(found, expected)
    quick = engine.search(sources, changed(options, token_scores=False), 16_000)
    for mine, other in zip(quick, expected, strict=True):
        assert [one.score for one in mine] == pytest.approx([one.score for one in other], abs=2e-4)
    assert (beam_size > 1) == (own.searched > 0) and own.searched < len(sources), "some are certain, and some are not"


def test_at_the_length_limit_more_may_have_ended_than_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """With twice the patience CTranslate2 returns 2K at most."""
    engine, _ = exact(make_model())
    ended, live = [([20], -1.0, True), ([21], -2.0, True)], [([20, 22], -3.0, False), ([21, 23], -4.0, False)]
    options = changed(OPTIONS, beam_size=2)
    for outputs, certain_ in ((ended[:1] + live, True), (ended + live, False), (ended[:1] + live[:1], False)):
        monkeypatch.setattr(engine.model, "search", lambda *_, outputs=outputs, **__: iter([(0, outputs)]))
        assert list(engine._at_limit([SearchInput([10], 2)], [0], options, 1000)) == ([0] if certain_ else [])


def loaded(path: Path, caplog: pytest.LogCaptureFixture, *overrides: str, **more: object) -> tuple[Translator, str]:
    caplog.clear()
    with caplog.at_level(logging.INFO, "nmt"):
        translator = nmt.load(path, "cpu", overrides=[f"decoding.{one}" for one in overrides], **more)  # type: ignore[arg-type]
    [line] = caplog.messages
    return translator, line


def test_one_line_says_which_engine_it_is(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    for overrides in ((), ("engine=ctranslate2",)):
        translator, line = loaded(model, caplog, *overrides)
        assert isinstance(translator.engine, CTranslate2Engine) and line == "search: CTranslate2"
    translator, line = loaded(model, caplog, "engine=torch")
    assert isinstance(translator.engine, PyTorchEngine) and line == "search: PyTorch"


def test_other_settings_are_left_to_pytorch(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    translator, line = loaded(model, caplog, "no_repeat_ngram=3")
    why = "decoding.no_repeat_ngram: 3: CTranslate2 is not used: it changes the probabilities of other subwords too"
    assert isinstance(translator.engine, PyTorchEngine) and line == f"search: PyTorch ({why})"
    with pytest.raises(
        NmtError, match=rf"^decoding.engine: ctranslate2 is not possible \({why}\): set decoding.engine="
    ):
        loaded(model, caplog, "no_repeat_ngram=3", "engine=ctranslate2")


def test_ensembles_and_glossaries_are_left_to_pytorch(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "terms").write_text("one\tzebra\n")
    translator, line = loaded(model, caplog, glossary=tmp_path / "terms")
    assert line == "search: PyTorch (CTranslate2 has no glossaries)"
    assert "zebra" in translator.translate(["one"])[0]
    translator, line = loaded(model, caplog, ensemble=[model])
    assert line == "search: PyTorch (CTranslate2 has no ensembles)"
    assert translator.translate(LINES) == nmt.load(model, "cpu").translate(LINES)


def test_a_model_that_it_does_not_have_is_left_to_pytorch_before_its_weights_are_read(
    tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recurrent one, or one with a value of a setting that was added to the model alone."""
    monkeypatch.setattr(CTranslate2Engine, "of_model_file", lambda *_: pytest.fail("opened by CTranslate2"))
    monkeypatch.setitem(ctranslate2_files._VALUES, "norm", ("other",))  # type: ignore[arg-type]
    why = "model.norm: post: nmt writes no such model for CTranslate2, only other"
    assert loaded(model, caplog)[1] == f"search: PyTorch ({why})"
    recurrent = replace(make_model().config, model=RecurrentConfig(embedding_size=8, hidden_size=8))
    path = save(make_checkpoint(recurrent), tmp_path)
    why = "model.architecture: recurrent: CTranslate2 has no such model"
    assert loaded(path, caplog)[1] == f"search: PyTorch ({why})"


def test_without_the_package_or_on_another_device_pytorch_searches(
    model: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_model.devices, "is_cpu", lambda name: False)
    assert loaded(model, caplog)[1] == "search: PyTorch (CTranslate2 is used on CPUs only: --device cpu)"
    monkeypatch.setattr(opened_model, "is_installed", lambda package: False)
    why = "CTranslate2 is not installed: pip install 'nmt-toolkit[ctranslate2]'"
    assert loaded(model, caplog)[1] == f"search: PyTorch ({why})"
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert not packages.is_installed("ctranslate2")


def test_what_is_unknown_without_byte_fallback_is_left_to_pytorch() -> None:
    made = make_model()
    words = [" ".join(LINES)] * 20
    size = len(vocabularies.learn(words, replace(made.config.vocabulary, size=40, byte_fallback=False)))
    side = vocabularies.learn(words, replace(made.config.vocabulary, size=size, byte_fallback=False))
    table = made.weights["target_embedding.weight"][:size].clone()
    same = size - 1  # a subword that the model cannot tell from the unknown one
    table[same] = table[UNK]
    weights = {**made.weights, "target_embedding.weight": table}
    engine, own = exact(Checkpoint(made.config, Vocabulary(side, side), weights, {}))
    sources = [SearchInput([*ids, 9], 12) for ids in ([], [UNK], [8, 7], [same])]
    found = engine.search(sources, OPTIONS, 500)
    assert own.searched == 2
    assert [[each.tokens for each in of_source] for of_source in found] == [
        [each.tokens for each in of_source] for of_source in own.search(sources, OPTIONS, 500)
    ]


def test_alignments_prefixes_and_encoder_outputs_come_from_pytorch(model: Path) -> None:
    quick = nmt.load(model, "cpu")
    own = nmt.load(model, "cpu", overrides=["decoding.engine=torch"])
    for found, expected in (
        (quick.hypotheses(LINES, 3, alignment=True), own.hypotheses(LINES, 3, alignment=True)),
        (quick.hypotheses(LINES, prefixes=["two"] * len(LINES)), own.hypotheses(LINES, prefixes=["two"] * len(LINES))),
        ([quick.score(LINES, LINES[::-1])], [own.score(LINES, LINES[::-1])]),
    ):
        for its, ours in zip(found, expected, strict=True):
            for one, other in zip(its, ours, strict=True):
                assert one.pieces == other.pieces and one.source_pieces == other.source_pieces
                assert one.score == pytest.approx(other.score, abs=1e-4)
                assert (one.alignment is None) == (other.alignment is None)
    assert [states.shape for states in quick.encode(["one two"])] == [
        states.shape for states in own.encode(["one two"])
    ]


def test_changed_settings_of_a_translator_are_respected(model: Path) -> None:
    quick, own = nmt.load(model, "cpu"), nmt.load(model, "cpu", overrides=["decoding.engine=torch"])
    for replaced in ({"min_length": 5}, {"no_repeat_ngram": 1}, {"max_extra_tokens": 200}, {"max_length": 3}):
        for translator in (quick, own):
            translator.decoding = replace(translator.decoding, **replaced)  # type: ignore[arg-type]
        assert quick.translate(LINES) == own.translate(LINES)


def test_pytorch_has_the_weights_that_were_loaded_also_when_the_file_is_gone(model: Path) -> None:
    translator, expected = nmt.load(model, "cpu"), nmt.load(model, "cpu", overrides=["decoding.engine=torch"])
    model.unlink()
    (ours,), (theirs,) = translator.encode(["one"]), expected.encode(["one"])
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("beam_size", [1, 4])
def test_weights_that_are_no_numbers_are_told(tmp_path: Path, beam_size: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nmt")
    made = make_model()
    for factor in (float("nan"), 1e18):
        weights = {name: weight * factor for name, weight in made.weights.items()}
        with pytest.raises(NmtError, match="line 2: the model's scores are not numbers"):
            path = save(replace(made, weights=weights), tmp_path)
            nmt.load(path, "cpu", overrides=[f"decoding.beam_size={beam_size}"]).translate(["", "one"])
    assert caplog.messages[-1] == "search: also PyTorch, as scores are not numbers", "weights of 1e18 are numbers"


def test_greedy_outputs_of_a_model_that_has_learned_nothing_have_no_special_subwords() -> None:
    """Its likeliest subword is often BOS: then so is the first of its parts."""
    made = make_model()
    torch.manual_seed(3)
    fresh = model_file.new_model(made.config.model, made.vocabulary)
    made = replace(made, weights=model_file.weights_of(fresh))
    engine, own = exact(made)
    sources = [SearchInput(ids, 10) for ids in made.vocabulary.source.encode(LINES) if ids]
    options = changed(OPTIONS, beam_size=1)
    assert_same(engine.search(sources, options, 1000), engine_of(made).search(sources, options, 1000))
    assert own.searched


def test_a_folder_named_as_the_package_is_not_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ctranslate2").mkdir()
    monkeypatch.delitem(sys.modules, "ctranslate2", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert not packages.is_installed("ctranslate2")


def test_a_package_that_cannot_be_loaded_is_told(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
            return ModuleSpec(name, self, origin="here") if name == "ctranslate2" else None

        def exec_module(self, module: object) -> None:
            raise OSError("glibc is too old")

    monkeypatch.delitem(sys.modules, "ctranslate2", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with caplog.at_level(logging.INFO, "nmt"):
        nmt.load(model, "cpu")
    assert "search: PyTorch (CTranslate2 cannot be loaded (glibc is too old)" in caplog.text


def test_sources_beyond_the_table_are_left_to_pytorch(model: Path) -> None:
    translator = nmt.load(model, "cpu", overrides=["decoding.max_source_tokens=500000"])
    assert isinstance(translator.engine, CTranslate2Engine)
    assert translator.engine._longest == 10_000 and translator.translate(["one two"])


def test_no_file_remains_of_what_was_converted(model: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    script = (
        "import sys, tempfile\n"
        f"tempfile.tempdir = {str(temporary)!r}\n"
        "from nmt.cli.app import app\n"
        f"app(['translate', {str(model)!r}, '--device', 'cpu'], standalone_mode=False)\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", script], input="one two\n", capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "search: CTranslate2\n"
    assert done.stdout == nmt.load(model, "cpu").translate(["one two"])[0] + "\n"
    assert not list(temporary.iterdir())
