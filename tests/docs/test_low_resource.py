"""The commands of docs/low-resource.md lead, one after the other, from sentence pairs to packages that translate."""

import itertools
import json
import random
import zipfile
from pathlib import Path

import pytest
from helpers.many_languages import many_languages_folder
from helpers.page_commands import run_page

from nmt.checkpoints import model_file
from nmt.interop.argos import export as argos

pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")
NAMES = {"The child": "Mtoto", "The teacher": "Mwalimu", "The doctor": "Daktari", "My friend": "Rafiki yangu"}
VERBS = {"reads": "anasoma", "buys": "ananunua", "sees": "anaona", "wants": "anataka", "sells": "anauza"}
THINGS = {"a book": "kitabu", "the bread": "mkate", "water": "maji", "fish": "samaki", "a letter": "barua"}
TIMES = {
    "today": "leo", "now": "sasa", "every day": "kila siku", "again": "tena", "here": "hapa", "at home": "nyumbani",
}  # fmt: skip
FEW_STEPS = [
    "training.max_steps=20", "training.validate_every=10", "training.checkpoint_every=10", "training.warmup_steps=1",
    "training.learning_rate=0.01", "training.validation_sentences=10", "decoding.beam_size=1",
]  # fmt: skip
SHORT = ["decoding.max_extra_tokens=5", "decoding.beam_size=1"]  # random models do not end their sentences
SOME_TEXT = ["decoding.min_length=5", "decoding.no_repeat_ngram=2"]  # not white space alone, which training drops


def write_text() -> None:
    """all.en and all.sw, mono.en and mono.sw, in the current folder."""
    sentences = list(itertools.product(NAMES.items(), VERBS.items(), THINGS.items(), TIMES.items()))
    random.Random(1).shuffle(sentences)
    for i, language in enumerate(("en", "sw")):
        lines = [" ".join(words[i] for words in sentence) + ".\n" for sentence in sentences]
        Path(f"all.{language}").write_text("".join(lines[:500]), encoding="utf-8")
        Path(f"mono.{language}").write_text("".join(lines[500 + 50 * i : 550 + 50 * i]), encoding="utf-8")


def test_the_commands_lead_from_pairs_to_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    many_languages_folder(Path("alirezamsh/small100"), "small100")
    write_text()
    more = {
        "train": FEW_STEPS, "translate": [*SHORT, *SOME_TEXT], "evaluate": SHORT,
        "export": ["--quantization", "float32"],
    }  # fmt: skip
    results = run_page("docs/low-resource.md", more)
    assert [line.split()[1] for line, _ in results] == [
        "split", "import", "evaluate", "init", "prepare", "train", "translate", "translate", "train",
        "average-checkpoints", "evaluate", "evaluate", "export",
    ]  # fmt: skip
    assert Path("data.html").is_file()
    for run in ("en-sw", "en-sw-2"):
        check_that_it_learned(Path("runs", run, "metrics.jsonl"))
    for synthetic, real in (("back.en", "mono.sw"), ("back.sw", "mono.en")):
        assert len(lines_of(synthetic)) == len(lines_of(real)) == 50
    trained = model_file.load(Path("en-sw.safetensors"))
    data = trained.config.data
    assert [(str(data.pair_of(corpus)), corpus.tag, corpus.weight) for corpus in data.train] == [
        ("en-sw", None, 1), ("sw-en", None, 1), ("en-sw", "<bt>", 1), ("sw-en", "<bt>", 1),
    ]  # fmt: skip
    assert {"<2en>", "<2sw>", "<bt>"} <= set(trained.vocabulary.source.every_piece())
    for source, target in (("en", "sw"), ("sw", "en")):
        package = Path(f"packages/translate-{source}_{target}-100_0.argosmodel")
        with zipfile.ZipFile(package) as archive:
            card = archive.read(f"{package.name.removesuffix('.argosmodel')}/README.md").decode()
        assert "imported from small100 (license: mit)" in card and "cc-by-sa-4.0" in card
        assert "back.en + mono.sw (50 pairs) with the tag `<bt>`" in card
        lines = lines_of(f"data/test.{source}")[:10]
        translations = argos.translate(package, lines)
        assert len(translations) == len(lines) and any(translations)


def lines_of(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


def check_that_it_learned(metrics: Path) -> None:
    """The loss of both directions has fallen since the imported model."""
    rows = [row for line in lines_of(str(metrics)) if "validation" in (row := json.loads(line))]
    first, last = ({each["name"]: each["validation_loss"] for each in row["validation"]} for row in (rows[0], rows[-1]))
    assert list(first) == ["en-sw", "sw-en"] and all(last[name] < first[name] - 0.5 for name in first)
