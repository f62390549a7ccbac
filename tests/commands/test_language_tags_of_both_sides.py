"""data.language_tags: sides: `<en>` before the source, `<de>` before the target, which outputs and scores leave out."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.export_models import random_model
from helpers.languages import counting_config, write_counting

import nmt
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export import export
from nmt.commands.train import train
from nmt.config import reader
from nmt.config.schema import Config, DecodingConfig
from nmt.data.prepare import PreparedData, prepare
from nmt.data.subwords.vocabulary import PAD
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.options import SearchOptions
from nmt.decoding.translation import Translation
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.interop.argos import export as argos
from nmt.pages.inspect.inspect import Inspector
from nmt.terms.glossary import Glossary

CPU = torch.device("cpu")
LINES = ["one two three", "four", "ten nine", "seven eight seven six", "two"]
SIDES = "data.language_tags=sides"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counting")
    write_counting(folder, "train", 60, seed=1)
    write_counting(folder, "validation", 5, seed=2)
    return folder


def config_of(texts: Path, run: Path, *overrides: str) -> Config:
    return reader.parse(Config, counting_config(texts, run), "test config", (SIDES, "vocabulary.size=340", *overrides))


def prepared_of(texts: Path, *overrides: str) -> tuple[Config, PreparedData]:
    config = config_of(texts, texts / "run", *overrides)
    return config, prepare(config)


RANDOM = (
    "decoding.max_extra_tokens=9", "decoding.max_length_ratio=1", "decoding.beam_size=3", "model.layers=2",
    "model.norm=pre", "model.tie=none",
)  # fmt: skip


def random_of(texts: Path, seed: int) -> Checkpoint:
    config, prepared = prepared_of(texts, *RANDOM)
    made = random_model(seed, config, prepared.vocabulary)
    rows = made.weights["output.weight"]
    with torch.no_grad():  # no token of a language comes by chance
        rows[prepared.vocabulary.target.tags(["<de>", "<en>", "<fr>"])] = rows[PAD].clone()
    return made


@pytest.fixture(scope="module")
def made(texts: Path) -> Checkpoint:
    """A random model of which some outputs end, and that depend on the language."""
    return random_of(texts, seed=1)


def saved(made: Checkpoint, folder: Path) -> Path:
    model_file.save(folder / "model.safetensors", made)
    return folder / "model.safetensors"


@pytest.fixture(scope="module")
def file(made: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(made, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def translator(file: Path) -> Translator:
    return nmt.load(file, "cpu", overrides=["decoding.engine=torch"])


def assert_close(found: list[list[Translation]], expected: list[list[Translation]]) -> None:
    for its, ours in zip(found, expected, strict=True):
        assert [(one.text, one.pieces) for one in its] == [(one.text, one.pieces) for one in ours]
        for one, other in zip(its, ours, strict=True):
            assert one.token_scores == pytest.approx(other.token_scores, abs=2e-4)
            assert one.score == pytest.approx(other.score, abs=2e-4)


# --------------------------------------------------------------------------- training


@pytest.mark.parametrize("overrides", [
    (), ("vocabulary.shared=false", "model.tie=none"), ("vocabulary.bpe_dropout=0.5", "data.augment.uppercase=0.5"),
])  # fmt: skip
def test_each_side_begins_with_its_language(texts: Path, overrides: tuple[str, ...]) -> None:
    _, prepared = prepared_of(texts, *overrides)
    step = len(prepared.train) // 3
    for prefix, ids, tokenizer in zip(
        ("source", "target"),
        prepared.train.pairs(np.arange(0, len(prepared.train), step)),
        (prepared.vocabulary.source, prepared.vocabulary.target),
        strict=True,
    ):
        expected = {"source": ["<en>", "<de>", "<en>"], "target": ["<de>", "<en>", "<fr>"]}[prefix]
        assert [tokenizer.pieces(each[:1].tolist()) for each in ids] == [[tag] for tag in expected]
        assert all(tokenizer.tag(piece) is None for each in ids for piece in tokenizer.pieces(each[1:].tolist()))
    for held_out in prepared.validation:
        source, target = (side[0].tolist() for side in held_out.ids.pairs(np.arange(1)))
        tags = prepared.vocabulary.source.pieces(source[:1]) + prepared.vocabulary.target.pieces(target[:1])
        assert tags == list(held_out.tags) == [f"<{language}>" for language in held_out.languages]


def test_a_run_of_one_pair_has_them_too_and_every_step_works(texts: Path, tmp_path: Path) -> None:
    one = f"data.train=[{{source: {texts}/train.en, target: {texts}/train.fr, languages: [en, fr]}}]"
    no_validation, learned = "data.validation=null", ("model.positions=learned", "model.max_positions=22")
    few = "training.max_steps=2", "training.validate_every=2", "data.max_length=20"
    untrained = ("training.learning_rate=1e-30", "model.tie=none")  # nothing makes the tag likely that it begins with
    own = (*learned, *untrained, "training.token_cutoff=0.1")
    train(config_of(texts, tmp_path / "run", one, no_validation, *few, *own), "cpu")
    translator = nmt.load(tmp_path / "run", "cpu", overrides=["decoding.max_extra_tokens=50"])
    assert translator.longest_source == 20 and translator.longest_output(20) == 20
    [[found]] = translator.hypotheses(["one " * 30], alignment=True)  # in parts
    assert found.source_pieces is not None and found.source_pieces.count("<en>") > 1
    assert len(found.pieces) == len(found.alignment or ()) == len(found.token_scores) and "<fr>" not in found.pieces
    train(config_of(texts, tmp_path / "all", *few, "training.packed=true"), "cpu")  # with validation


# --------------------------------------------------------------------------- search


@pytest.mark.parametrize("beam", [1, 3])
def test_the_search_is_that_of_a_forced_first_token_without_its_score(
    made: Checkpoint, translator: Translator, beam: int
) -> None:
    """The other way: a plain model, whose outputs must begin with the token."""
    tag = made.vocabulary.target.tag("<fr>")
    assert tag is not None
    translator = Translator(
        translator.engine, translator.vocabulary,
        dataclasses.replace(translator.decoding, beam_size=beam, normalization="none"),
        made.config.data.language_pairs,
    )  # fmt: skip
    found = translator.hypotheses(LINES, beam, to="fr")
    ids = [[*made.vocabulary.source.tags(["<en>"]), *line] for line in made.vocabulary.source.encode(LINES)]
    sources = [SearchInput(line, translator.longest_output(len(line) - 1) + 1, prefix=(tag,)) for line in ids]
    options = SearchOptions(DecodingConfig(beam_size=beam, normalization="none"), n_best=beam)
    expected = PyTorchEngine([made.build()], CPU).search(sources, options, 1000)
    different = 0
    for its, ours, line in zip(found, expected, translator.translate(LINES, to="de"), strict=True):
        texts = [re.sub(r"\s", " ", made.vocabulary.target.decode([one.tokens[1:]])[0]) for one in ours]
        assert [one.text for one in its] == list(dict.fromkeys(texts))[: len(its)]
        of_text = dict(reversed(list(zip(texts, ours, strict=True))))
        for one in its:
            assert one.token_scores == pytest.approx(of_text[one.text].token_scores[1:], abs=2e-4)
            assert one.log_probability == pytest.approx(sum(one.token_scores), abs=2e-4)
        different += its[0].text != line
    assert different


@pytest.mark.parametrize("decoding", [
    {}, {"method": "sample"}, {"consensus": "chrf"}, {"no_repeat_ngram": 1, "min_length": 3}, {"coverage_penalty": 0.2},
])  # fmt: skip
def test_every_search_gives_its_own_score_and_alignment(
    translator: Translator, made: Checkpoint, decoding: dict[str, object]
) -> None:
    settings = dataclasses.replace(translator.decoding, **decoding)  # type: ignore[arg-type]
    own = Translator(translator.engine, translator.vocabulary, settings, made.config.data.language_pairs)
    for [found], line in zip(own.hypotheses(LINES, alignment=True, to="de", from_="en"), LINES, strict=True):
        assert len(found.pieces) == len(found.alignment or ()) == len(found.token_scores)
        assert not set(found.pieces) & {"<de>", "<en>", "<fr>"}
        [again] = own.score([line], [found.text], to="de", from_="en")
        assert again is not None
        if again.pieces == found.pieces:
            assert again.token_scores == pytest.approx(found.token_scores, abs=2e-4)
        if "min_length" in decoding:
            assert len(set(found.pieces)) == len(found.pieces) >= 4


def test_terms_prefixes_and_ensembles(translator: Translator, made: Checkpoint) -> None:
    languages = made.config.data.language_pairs
    own = Translator(translator.engine, translator.vocabulary, translator.decoding, languages)
    own.use_glossary(Glossary([("two", "zwei")]), "glossary")
    [[found]] = own.hypotheses(["one two three"], to="de")
    assert found.terms is not None and [term.found_as for term in found.terms] == ["two"]
    assert found.terms[0].how == "failed" or "zwei" in found.text
    [[begun]] = translator.hypotheses(["four"], prefixes=["acht"], to="de")
    assert begun.text.startswith("acht") and begun.pieces[0] != "<de>"
    twice = Translator(PyTorchEngine([made.build(), made.build()], CPU), own.vocabulary, own.decoding, languages)
    assert_close(twice.hypotheses(LINES, 2, to="fr"), translator.hypotheses(LINES, 2, to="fr"))


def test_inspecting_shows_the_target_alone(file: Path) -> None:
    inspector = Inspector.load(file, "cpu")
    seen = inspector.inspect("one two", to="de", from_="en")
    rows, source = len(seen.target.pieces), len(seen.source.pieces)
    assert seen.source.pieces[0] == "<en>" and seen.target.pieces[0] != "<de>"
    assert seen.inside.attention["cross"].shape[2:] == (rows, source)
    assert seen.inside.attention["decoder"].shape[2:] == (rows, rows)
    for weights in seen.inside.attention.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert seen.alignment is not None and seen.nodes[0].parent is None


# --------------------------------------------------------------------------- CTranslate2


def test_ctranslate2_gives_the_same(file: Path) -> None:
    pytest.importorskip("ctranslate2")
    theirs, ours = (
        nmt.load(file, "cpu", overrides=["decoding.beam_size=1", f"decoding.engine={engine}"])
        for engine in ("ctranslate2", "torch")
    )
    for to in ("de", "fr"):
        expected = ours.hypotheses(LINES, to=to)
        assert_close(theirs.hypotheses(LINES, to=to), expected)
        texts = [best.text for [best] in expected]
        scored, expected_scores = (each.score(LINES, texts, to=to, from_="en") for each in (theirs, ours))
        for its, our in zip(scored, expected_scores, strict=True):
            assert its is not None and our is not None
            assert its.token_scores == pytest.approx(our.token_scores, abs=2e-4)


def test_an_exported_folder_has_them_too(file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("ctranslate2")
    with caplog.at_level("INFO", logger="nmt"):
        found = export(file, "ctranslate2", tmp_path / "folder", lines=LINES)
    assert found is not None and not found.different
    assert "en-fr: <en> and <fr>" in caplog.text and "target_prefix" in caplog.text
    exported = nmt.load(tmp_path / "folder", "cpu", overrides=["decoding.beam_size=1"])
    greedy = nmt.load(file, "cpu", overrides=["decoding.beam_size=1"])
    assert_close(exported.hypotheses(LINES, to="fr"), greedy.hypotheses(LINES, to="fr"))


def test_packages_of_argos_translate_have_them_too(file: Path, tmp_path: Path) -> None:
    package = pytest.importorskip("ctranslate2")
    export(file, "argos", tmp_path / "packages", "float32", LINES)
    export(file, "ctranslate2", tmp_path / "folder", lines=LINES)
    tokenizer = model_file.load(file).vocabulary.target
    sources = [["<en>", *tokenizer.pieces(ids)] for ids in tokenizer.encode(LINES)]
    results = package.Translator(str(tmp_path / "folder")).translate_batch(
        sources, target_prefix=[["<fr>"]] * len(LINES), beam_size=4, length_penalty=0.2
    )
    ids = {piece: i for i, piece in enumerate(tokenizer.every_piece())}
    expected = tokenizer.decode([[ids[piece] for piece in result.hypotheses[0]] for result in results])
    assert argos.translate(tmp_path / "packages" / "translate-en_fr-100_0.argosmodel", LINES) == expected


def test_marian_has_no_room_for_the_token_of_the_target(texts: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    config, prepared = prepared_of(texts)
    file = saved(random_model(1, config, prepared.vocabulary), tmp_path)
    with pytest.raises(NmtError, match=r"data\.language_tags: sides: MarianTokenizer"):
        export(file, "marian", tmp_path / "out")
