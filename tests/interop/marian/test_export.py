"""What Marian can hold is the same model in transformers; what it cannot is refused by name."""

import json
import stat
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from helpers.export_models import LINES, SEPARATE, VARIANTS, engine_of, make_model, make_settings

from nmt.config.schema import DecodingConfig
from nmt.data.subwords.vocabulary import BOS, EOS, PAD
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.stepper import Hypothesis, SearchOptions
from nmt.errors import NmtError
from nmt.interop import parity
from nmt.interop.marian import export as marian
from nmt.interop.marian.engine import MarianEngine


@pytest.mark.parametrize("overrides", VARIANTS, ids=" ".join)
def test_every_variant_is_the_same_model(overrides: tuple[str, ...], tmp_path: Path) -> None:
    made = make_model(*overrides)
    marian.write(tmp_path, made)
    ours = engine_of(made)
    lines = [*LINES, *parity.sample(made.vocabulary.source)[::2]]
    found = parity.compare(ours, MarianEngine(tmp_path), made.vocabulary, made.config, lines)
    assert found.holds and not found.greedy and not found.beam, str(found)
    assert found.largest < 5e-5


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["model.norm=pre"], "model.norm: pre"),
        (["model.positions=rotary"], "model.positions: rotary"),
        (["model.key_size=17"], "model.key_size: 17"),
        (["model.heads=3", "model.key_size=4", "model.value_size=4"], "model.heads: 3"),
    ],
)
def test_what_marian_cannot_hold_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(NmtError, match=words) as error:
        marian.check(make_settings(*overrides))
    assert "--format ctranslate2" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("overrides", [(), SEPARATE])
def test_the_folder_is_what_transformers_expects(overrides: tuple[str, ...], tmp_path: Path) -> None:
    marian.write(tmp_path, make_model(*overrides))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json",
        "vocab.json", "source.spm", "target.spm", "nmt.yaml", "README.md",
        *(["target_vocab.json"] if overrides else []),
    }  # fmt: skip
    generation = json.loads((tmp_path / "generation_config.json").read_text())
    assert generation["decoder_start_token_id"] == BOS and generation["eos_token_id"] == EOS
    assert generation["num_beams"] == 3 and generation["max_length"] == 40 + 12 + 1
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1  # whoever may read one may read all


def test_text_to_text_as_users_of_transformers_do_it_and_after_saving_again(tmp_path: Path) -> None:
    """Greedily, where searches do not differ; the tokenizer's text is ours too."""
    from transformers import MarianMTModel, MarianTokenizer

    made = make_model("decoding.beam_size=1", "decoding.max_extra_tokens=40")
    (tmp_path / "first").mkdir()
    marian.write(tmp_path / "first", made)
    model = MarianMTModel.from_pretrained(tmp_path / "first")
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "first")
    model.save_pretrained(tmp_path / "second")
    tokenizer.save_pretrained(tmp_path / "second")
    again = MarianEngine(tmp_path / "second")
    lines = [line for line in LINES if line]
    assert again.subwords(lines) == made.vocabulary.source.encode(lines)
    engine = engine_of(made)
    found = parity.compare(engine, again, made.vocabulary, made.config, lines)
    assert found.holds and not found.greedy
    output = model.generate(**tokenizer(lines, return_tensors="pt", padding=True), max_length=10)
    texts = tokenizer.batch_decode(output, skip_special_tokens=True)
    ids = [[i for i in row if i not in (PAD, BOS, EOS)] for row in output.tolist()]
    assert texts == [text.strip() for text in made.vocabulary.target.decode(ids)]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_n_best_are_ours_with_a_longest_length_each(beam_size: int, tmp_path: Path) -> None:
    """transformers' search, with its differences removed."""
    made = make_model()
    marian.write(tmp_path, made)
    options = SearchOptions(DecodingConfig(beam_size=beam_size, length_penalty=0.0), n_best=beam_size)
    cut = made.vocabulary.source.encode([line for line in LINES if line])
    sources = [SearchInput(ids, 1 + 3 * number) for number, ids in enumerate(cut)]
    ours = engine_of(made).search(sources, options, 1000)
    theirs = MarianEngine(tmp_path).search(sources, options, 1000)
    for mine, its in zip(ours, theirs, strict=True):
        assert [hypothesis.tokens for hypothesis in mine] == [hypothesis.tokens for hypothesis in its][: len(mine)]
        for one, other in zip(mine, its, strict=False):
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)
            assert one.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("length_penalty=0.7",), {"num_beams": 3, "length_penalty": pytest.approx(0.8 * 0.7)}),
        (("length_penalty=0.7", "normalization=none"), {"length_penalty": 0.0}),
        (
            ("method=sample", "temperature=0.5", "top_p=0.9"),
            {"do_sample": True, "num_beams": 1, "temperature": 0.5, "top_p": 0.9, "top_k": 0},
        ),
        (
            ("no_repeat_ngram=2", "min_length=3", "max_length=5"),
            {"no_repeat_ngram_size": 2, "min_length": 4, "max_length": 7},  # with BOS, and with EOS
        ),
    ],
    ids=str,
)
def test_what_transformers_has_of_our_settings_is_carried(
    overrides: tuple[str, ...], expected: dict[str, object], tmp_path: Path
) -> None:
    marian.write(tmp_path, replace(make_model(), config=make_settings(*(f"decoding.{one}" for one in overrides))))
    generation = json.loads((tmp_path / "generation_config.json").read_text())
    assert {key: generation[key] for key in expected} == expected


def test_the_comparison_searches_with_the_models_settings_and_not_those_of_the_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder's have another length penalty and limits that hold for any source. What it cannot have is said."""
    limits = ("no_repeat_ngram=2", "min_length=3", "max_length=5", "normalization=average", "length_penalty=2")
    config = make_settings(*(f"decoding.{one}" for one in (*limits, "banned=[zebra]", "coverage_penalty=0.2")))
    made = replace(make_model(), config=config)
    marian.write(tmp_path, made)
    assert caplog.messages == [
        "decoding.coverage_penalty, decoding.banned: not exported, because transformers has no such setting"
    ]
    engine, lines = MarianEngine(tmp_path), [line for line in LINES if line]
    for row in engine.model.generate(**engine.tokenizer(lines, return_tensors="pt", padding=True)).tolist():
        tokens = [i for i in row if i not in (PAD, BOS, EOS)]
        pairs = list(pairwise(tokens))
        assert 3 <= len(tokens) <= 5 and len(pairs) == len(set(pairs))
    seen = set()

    class Ours(PyTorchEngine):
        def search(
            self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
        ) -> list[list[Hypothesis]]:
            seen.add((options.decoding.normalization, options.decoding.length_penalty))
            return super().search(sources, options, batch_tokens)

    found = parity.compare(Ours([made.build()], torch.device("cpu")), engine, made.vocabulary, config, LINES)
    assert found.holds and not found.beam and seen == {("average", 2.0)}


def test_a_package_that_lacks_another_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "transformers.py").write_text("raise ImportError('safetensors>=0.8 is required\\nTry: pip install')")
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NmtError, match=r"^transformers cannot be loaded \(safetensors>=0\.8 is required Try: .*\)"):
        marian.load_package()
