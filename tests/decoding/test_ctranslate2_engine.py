"""CTranslate2 behind our engine's protocol: the same hypotheses, the same scores, one translator."""

import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.export_models import LINES, SEPARATE, engine_of, make_model
from helpers.model_files import tokenizer

import nmt
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export import ctranslate2
from nmt.data.vocabulary import BOS, EOS, PAD, UNK
from nmt.decoding import ctranslate2_folder
from nmt.decoding.ctranslate2_folder import CTranslate2Folder
from nmt.decoding.interface import SearchInput
from nmt.decoding.search.options import Options
from nmt.decoding.translator import Translator
from nmt.errors import NmtError

MADE = make_model("decoding.beam_size=4")
OPTIONS = Options(bos=BOS, eos=EOS, never=(PAD, UNK, BOS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    ctranslate2.write(folder, MADE)
    return folder


def ours(made: Checkpoint = MADE) -> Translator:
    return Translator(engine_of(made), made.vocabulary, made.config.decoding)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_n_best_are_ours(beam_size: int, alpha: float, folder: Path) -> None:
    mine, its = ours(), nmt.load(str(folder), "cpu")
    for translator in (mine, its):
        translator.decoding = replace(translator.decoding, beam_size=beam_size, length_penalty=alpha)
    for one, other in zip(mine.hypotheses(LINES, beam_size), its.hypotheses(LINES, beam_size), strict=True):
        assert [found.pieces for found in one] == [found.pieces for found in other]
        for found, again in zip(one, other, strict=True):
            assert found.text == again.text
            assert found.token_scores == pytest.approx(again.token_scores, abs=1e-4)
            assert found.score == pytest.approx(again.score, abs=1e-4)
            assert found.log_probability == pytest.approx(again.log_probability, abs=1e-4)
    assert its.translate(LINES) == mine.translate(LINES)


def test_a_batch_does_not_change_what_a_source_gets_nor_its_longest_length(folder: Path) -> None:
    engine = CTranslate2Folder(folder, "cpu")
    sources = [SearchInput(ids, 1 + 2 * n) for n, ids in enumerate(MADE.vocabulary.source.encode(LINES * 2)) if ids]
    together = engine.search(sources, OPTIONS, 16_000)
    narrow = engine.search(sources, OPTIONS, 1)
    for source, found, again in zip(sources, together, narrow, strict=True):
        assert len(found[0].tokens) <= source.longest
        assert len(found[0].token_scores) == len(found[0].tokens) + 1
        [[alone]] = engine.search([source], OPTIONS, 16_000)
        assert found[0].tokens == alone.tokens == again[0].tokens
    assert engine.search([], OPTIONS, 100) == []
    greedy = replace(OPTIONS, beam_size=1)
    expected = engine_of(MADE).search(sources, greedy, 100)
    for [mine], [its] in zip(expected, engine.search(sources, greedy, 100), strict=True):
        assert mine.tokens == its.tokens


def test_without_token_scores_the_choice_is_the_same(folder: Path) -> None:
    engine = CTranslate2Folder(folder, "cpu")
    sources = [SearchInput(ids, 20) for ids in MADE.vocabulary.source.encode(LINES) if ids]
    quick = engine.search(sources, replace(OPTIONS, scores=False), 1000)
    for [found], [whole] in zip(quick, engine.search(sources, OPTIONS, 1000), strict=True):
        assert found.tokens == whole.tokens
        assert found.score == pytest.approx(whole.score, abs=1e-3)
    as_text = engine.search(sources, replace(OPTIONS, token_scores=False, n_best=2), 1000)
    as_json = engine.search(sources, replace(OPTIONS, n_best=2), 1000)
    assert [[one.score for one in each] for each in as_text] == [[one.score for one in each] for each in as_json]


def test_lines_that_are_too_long_or_strange(folder: Path) -> None:
    translator = nmt.load(str(folder), "cpu")
    assert translator.longest_source == 40
    lines = ["", " ", "one " * 500, "\x00", "three\u2028four", "ten </s> <pad> <unk>", "\U0001f600" * 3]
    assert translator.translate(lines) == ours().translate(lines)
    assert (translator.counts.lines, translator.counts.empty, translator.counts.split) == (7, 3, 1)  # U+0000: a space


def test_learned_positions_limit_a_line(tmp_path: Path) -> None:
    ctranslate2.write(tmp_path, make_model("model.positions=learned", "model.max_positions=300"))
    assert CTranslate2Folder(tmp_path, "cpu").positions == 299
    assert nmt.load(str(tmp_path), "cpu").translate(["one " * 500])


def test_threads_share_a_translator(folder: Path) -> None:
    translator = nmt.load(str(folder), "cpu")
    expected, found = translator.translate(LINES), {}

    def work(number: int) -> None:
        found[number] = translator.translate(LINES)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), expected)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("banned=[zebra]", r"^decoding\.banned: a CTranslate2 .*: set decoding\.banned=\[\], or translate with the"),
        ("method=sample", r"^decoding\.method: sample: a CTranslate2 .*: set decoding\.method=beam, or translate with the"),
        ("no_repeat_ngram=3", r"^decoding\.no_repeat_ngram: 3: .*: set decoding\.no_repeat_ngram=null, or"),
        ("engine=torch", r"decoding\.engine: torch: this folder is for CTranslate2: give the model file"),
        ("coverage_penalty=0.2", r"^decoding\.coverage_penalty: 0\.2: .*: set decoding\.coverage_penalty=0\.0, or"),
    ],
)
def test_a_setting_that_it_lacks_is_refused_with_a_remedy(override: str, words: str, folder: Path) -> None:
    with pytest.raises(NmtError, match=words):
        nmt.load(str(folder), "cpu", overrides=[f"decoding.{override}"]).translate(LINES)


def test_a_precision_that_the_folder_is_not_in_is_refused(folder: Path, tmp_path: Path) -> None:
    ctranslate2.write(tmp_path, MADE, "int8")
    whole, small = CTranslate2Folder(folder, "cpu"), CTranslate2Folder(tmp_path, "cpu")
    for engine, precision in ((whole, "model"), (whole, "float32"), (small, "model"), (small, "int8")):
        engine.check_precision(precision)
    for engine, precision in ((whole, "int8"), (whole, "bfloat16"), (small, "float32")):
        with pytest.raises(NmtError, match=f"decoding.precision: {precision}: .* --quantization {precision}$"):
            engine.check_precision(precision)


@pytest.mark.parametrize("name", ["source.spm", "target.spm"])
@pytest.mark.parametrize("overrides", [(), SEPARATE])
def test_subwords_of_another_model_are_refused(name: str, overrides: tuple[str, ...], tmp_path: Path) -> None:
    ctranslate2.write(tmp_path, make_model(*overrides))
    CTranslate2Folder(tmp_path, "cpu")
    (tmp_path / name).write_bytes(tokenizer(290).proto)
    with pytest.raises(NmtError, match=rf"{name}: its 290 subwords differ from the \d+ of .*: export it again"):
        CTranslate2Folder(tmp_path, "cpu")


@pytest.mark.parametrize("text", ["{}", "[]", "3", '{"a": 1}', "[" * 100_000, "\udcff"])
def test_a_list_of_subwords_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    ctranslate2.write(tmp_path, MADE)
    [listed] = tmp_path.glob("*_vocabulary.json")
    engine = CTranslate2Folder(tmp_path, "cpu")
    listed.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(NmtError, match="export it again"):
        CTranslate2Folder(tmp_path, "cpu")
    with pytest.raises(NmtError, match="export it again"):  # whatever CTranslate2 makes of it
        ctranslate2_folder._check_pieces(tmp_path, engine.model.source_pieces, engine.model.target_pieces)


def test_weights_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    weights = {name: weight * float("nan") for name, weight in MADE.weights.items()}
    ctranslate2.write(tmp_path, replace(MADE, weights=weights))
    with pytest.raises(NmtError, match="line 2: the model's scores are not numbers"):
        nmt.load(str(tmp_path), "cpu").translate(["", "one"])


@pytest.mark.parametrize("device", ["mps", "gpu", "cuda:99"])
def test_a_device_that_it_has_not_is_refused_by_name(device: str, folder: Path) -> None:
    with pytest.raises(NmtError, match=f"--device {device}: CTranslate2"):
        nmt.load(str(folder), device)


def test_damaged_and_foreign_folders_and_a_missing_package_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctranslate2.write(tmp_path, MADE)
    weights = tmp_path / "model.bin"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(NmtError, match=r"CTranslate2 cannot load it: .*: export it again"):
        nmt.load(str(tmp_path), "cpu")
    (tmp_path / "nmt.yaml").unlink()
    with pytest.raises(NmtError, match=r"nmt\.yaml: missing"):
        nmt.load(str(tmp_path), "cpu")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(NmtError, match=r"pip install ctranslate2"):
        nmt.load(str(tmp_path), "cpu")
