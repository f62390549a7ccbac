"""What Marian can hold is the same model in transformers; what it cannot is refused by name."""

import json
import stat
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from helpers.equivalence import TransformersModel, difference, random_lines
from helpers.export_models import LINES, SEPARATE, VARIANTS, make_model, make_settings, written

from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK
from nmt.errors import NmtError
from nmt.interop import hugging_face, parity
from nmt.interop.marian import export as marian
from nmt.interop.marian.export import MarianExporter


def in_transformers(folder: Path) -> TransformersModel:
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(folder, local_files_only=True)
    target = [-1 if i in (PAD, UNK, BOS) else i for i in range(model.config.decoder_vocab_size)]  # what no output has
    return TransformersModel(model, range(model.config.vocab_size), target)


@pytest.mark.parametrize("overrides", VARIANTS, ids=" ".join)
def test_every_variant_is_the_same_model(overrides: tuple[str, ...], tmp_path: Path) -> None:
    made = make_model(*overrides)
    written(MarianExporter(), tmp_path, made)
    lines = [*LINES, *random_lines(made.vocabulary.source)[::2]]
    assert difference(made, in_transformers(tmp_path), lines) < 5e-5
    translations = parity.translate(made, LINES), MarianExporter().translate(tmp_path, made, LINES)
    for pair in zip(*translations, strict=True):
        shorter, longer = sorted((text.strip().rstrip("�") for text in pair), key=len)
        assert longer.startswith(shorter)  # with random weights, some outputs end at a length limit


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
    written(MarianExporter(), tmp_path, make_model(*overrides))
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
    """The tokenizer's text is ours too."""
    from transformers import MarianMTModel, MarianTokenizer

    made = make_model("decoding.beam_size=1", "decoding.max_extra_tokens=40")
    written(MarianExporter(), tmp_path / "first", made)
    model = MarianMTModel.from_pretrained(tmp_path / "first")
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "first")
    model.save_pretrained(tmp_path / "second")
    tokenizer.save_pretrained(tmp_path / "second")
    lines = [line for line in LINES if line]
    again = MarianTokenizer.from_pretrained(tmp_path / "second")
    assert [ids[:-1] for ids in again(lines)["input_ids"]] == made.vocabulary.source.encode(lines)
    assert difference(made, in_transformers(tmp_path / "second"), lines) < 5e-5
    output = model.generate(**tokenizer(lines, return_tensors="pt", padding=True), max_length=10)
    texts = tokenizer.batch_decode(output, skip_special_tokens=True)
    ids = [[i for i in row if i not in (PAD, BOS, EOS)] for row in output.tolist()]
    assert texts == [text.strip() for text in made.vocabulary.target.decode(ids)]


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
    config = make_settings(*(f"decoding.{setting}" for setting in overrides))
    written(MarianExporter(), tmp_path, replace(make_model(), config=config))
    generation = json.loads((tmp_path / "generation_config.json").read_text())
    assert {key: generation[key] for key in expected} == expected


def test_what_transformers_does_not_have_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from transformers import MarianMTModel, MarianTokenizer

    limits = ("no_repeat_ngram=2", "min_length=3", "max_length=5", "banned=[zebra]", "coverage_penalty=0.2")
    made = replace(make_model(), config=make_settings(*(f"decoding.{setting}" for setting in limits)))
    written(MarianExporter(), tmp_path, made)
    assert caplog.messages == [
        "decoding.coverage_penalty, decoding.banned: not exported, because transformers has no such setting"
    ]
    model, tokenizer = (kind.from_pretrained(tmp_path) for kind in (MarianMTModel, MarianTokenizer))
    lines = [line for line in LINES if line]
    for row in model.generate(**tokenizer(lines, return_tensors="pt", padding=True)).tolist():
        tokens = [i for i in row if i not in (PAD, BOS, EOS)]
        pairs = list(pairwise(tokens))
        assert 3 <= len(tokens) <= 5 and len(pairs) == len(set(pairs))


def test_a_package_that_lacks_another_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "transformers.py").write_text("raise ImportError('safetensors>=0.8 is required\\nTry: pip install')")
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NmtError, match=r"^transformers cannot be loaded \(safetensors>=0\.8 is required Try: .*\)"):
        hugging_face.load_package()
