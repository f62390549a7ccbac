"""An exported folder translates as the model file, and refuses what CTranslate2 does not have."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.export_models import LINES, SEPARATE, make_model
from helpers.model_files import tokenizer

import nmt
from nmt.checkpoints import model_file
from nmt.config.schema import DecodingConfig
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.options import SearchOptions
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.interop.ctranslate2 import folder as ctranslate2_folder
from nmt.interop.ctranslate2.engine import CTranslate2Engine
from nmt.interop.ctranslate2.folder import CTranslate2Folder

MADE = make_model("decoding.beam_size=4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    ctranslate2.write(folder, MADE)
    return folder


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_folder_translates_as_its_model_file(beam_size: int, folder: Path, tmp_path: Path) -> None:
    """Any text, and n-best lists with all their scores."""
    model_file.save(tmp_path / "model.safetensors", MADE)
    exported, original = (nmt.load(path, "cpu") for path in (folder, tmp_path / "model.safetensors"))
    assert isinstance(original.engine, CTranslate2Engine) and not isinstance(original.engine, CTranslate2Folder)
    for translator in (exported, original):
        translator.decoding = replace(translator.decoding, beam_size=beam_size, length_penalty=2.0)
    lines = [*LINES, " ", "one " * 500, "\x00", "three\u2028four", "ten </s> <pad> <unk>", "\U0001f600" * 3]
    assert exported.hypotheses(lines, beam_size) == original.hypotheses(lines, beam_size)
    assert exported.translate(lines) == original.translate(lines)
    assert exported.longest_source == 40
    assert (exported.counts.lines, exported.counts.empty, exported.counts.split) == (28, 6, 2)  # U+0000: a space


@pytest.mark.parametrize("beam_size", [1, 4])
def test_each_source_has_its_own_shortest_and_longest_output(beam_size: int, folder: Path) -> None:
    ids = [ids for ids in MADE.vocabulary.source.encode(LINES * 2) if ids]
    sources = [SearchInput(each, 2 * n, shortest=min(2 * n, n % 3)) for n, each in enumerate(ids)]
    options = SearchOptions(DecodingConfig(beam_size=beam_size), scores=beam_size > 1)
    results = CTranslate2Folder(folder, "cpu").search(sources, options, 16_000)
    for source, [best] in zip(sources, results, strict=True):
        assert source.shortest <= len(best.tokens) <= source.longest


def test_special_subwords_are_never_produced(tmp_path: Path) -> None:
    """However probable they are."""
    table = MADE.weights["target_embedding.weight"].clone()
    table[[PAD, UNK, BOS]] = 1.5 * table[[EOS]]
    ctranslate2.write(tmp_path, replace(MADE, weights={**MADE.weights, "target_embedding.weight": table}))
    engine = CTranslate2Folder(tmp_path, "cpu")
    sources = [SearchInput(ids, 9) for ids in MADE.vocabulary.source.encode(LINES) if ids]
    for beam_size in (1, 4):
        for [best] in engine.search(sources, SearchOptions(DecodingConfig(beam_size=beam_size)), 1000):
            assert min(best.tokens, default=EOS) >= EOS


def test_what_it_lacks_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        NmtError, match=r"^decoding\.no_repeat_ngram: 3: with CTranslate2 it must be null: .*model file$"
    ):
        nmt.load(str(folder), "cpu", overrides=["decoding.no_repeat_ngram=3"]).translate(LINES)
    with pytest.raises(NmtError, match=r"decoding\.engine: torch: this folder is for CTranslate2: give the model file"):
        nmt.load(str(folder), "cpu", overrides=["decoding.engine=torch"])
    translator = nmt.load(str(folder), "cpu")
    with pytest.raises(NmtError, match=r"^prefixes: CTranslate2 has none: .*model file$"):
        translator.hypotheses(["one"], prefixes=["two"])
    with pytest.raises(NmtError, match=r"an exported folder cannot use a glossary: translate with the model file$"):
        nmt.load(str(folder), "cpu", glossary={"one": "eins"})
    with pytest.raises(NmtError, match="gives no alignment"):
        translator.hypotheses(["one"], alignment=True)
    with pytest.raises(NmtError, match="gives no encoder output"):
        translator.encode(["one"])
    for device in ("mps", "gpu", "cuda:99"):
        with pytest.raises(NmtError, match=f"--device {device}: CTranslate2"):
            nmt.load(str(folder), device)
    ctranslate2.write(tmp_path, MADE, "int8")
    whole, small = CTranslate2Folder(folder, "cpu"), CTranslate2Folder(tmp_path, "cpu")
    for engine, precision in ((whole, "model"), (whole, "float32"), (small, "model"), (small, "int8")):
        engine.check_precision(precision)
    for engine, precision in ((whole, "int8"), (whole, "bfloat16"), (small, "float32")):
        with pytest.raises(NmtError, match=f"decoding.precision: {precision}: .* --quantization {precision}$"):
            engine.check_precision(precision)


def test_learned_positions_limit_a_line(tmp_path: Path) -> None:
    ctranslate2.write(tmp_path, make_model("model.positions=learned", "model.max_positions=300"))
    assert CTranslate2Folder(tmp_path, "cpu").positions == 299
    assert nmt.load(str(tmp_path), "cpu").translate(["one " * 500])


@pytest.mark.parametrize(("name", "overrides"), [("source.spm", SEPARATE), ("target.spm", ())])
def test_subwords_of_another_model_are_refused(name: str, overrides: tuple[str, ...], tmp_path: Path) -> None:
    ctranslate2.write(tmp_path, make_model(*overrides))
    (tmp_path / name).write_bytes(tokenizer(290).proto)
    with pytest.raises(NmtError, match=rf"{name}: its 290 subwords differ from the \d+ of .*: export it again"):
        CTranslate2Folder(tmp_path, "cpu")


def test_damaged_and_foreign_folders_are_told(tmp_path: Path) -> None:
    ctranslate2.write(tmp_path, MADE)
    engine = CTranslate2Folder(tmp_path, "cpu")
    [listed] = tmp_path.glob("*_vocabulary.json")
    content = listed.read_bytes()
    for text in ("{}", "[]", "[" * 100_000, "\udcff"):
        listed.write_text(text, encoding="utf-8", errors="surrogateescape")
        with pytest.raises(NmtError, match="export it again"):
            CTranslate2Folder(tmp_path, "cpu")
        with pytest.raises(NmtError, match="export it again"):  # whatever CTranslate2 makes of it
            ctranslate2_folder._check_pieces(tmp_path, engine.model.source_pieces, engine.model.target_pieces)
    listed.write_bytes(content)
    weights = tmp_path / "model.bin"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(NmtError, match=r"CTranslate2 cannot load it: .*: export it again"):
        nmt.load(str(tmp_path), "cpu")
    (tmp_path / "nmt.yaml").unlink()
    with pytest.raises(NmtError, match=r"nmt\.yaml: missing"):
        nmt.load(str(tmp_path), "cpu")


def test_scores_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    weights = {name: weight * 1e30 for name, weight in MADE.weights.items()}
    ctranslate2.write(tmp_path, replace(MADE, weights=weights))
    with pytest.raises(NmtError, match="the model's scores are not numbers"):
        nmt.load(str(tmp_path), "cpu").translate(["", "one"])
