"""`nmt info` says what a model file states, without reading its weights."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.export_models import make_model, make_settings, random_model, random_shortlist
from helpers.model_files import make_checkpoint, tokenizer
from typer.testing import CliRunner

from nmt.checkpoints import averaging, model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.cli import app
from nmt.commands.export import EXPORTERS, export
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding.confidence import CALIBRATION, Calibration
from nmt.errors import NmtError

TEXT = {
    "name": "train.en + train.de", "languages": "en-de", "pairs": 20000, "fingerprint": None,
    "files": [{"name": "train.en", "sha256": "ab12"}, {"name": "train.de", "sha256": "cd34"}],
}  # fmt: skip
PROVENANCE: dict[str, Any] = {
    "nmt": "0.1.0", "torch": "2.9", "date": "2017-06-12T17:57:34+00:00", "step": 1200, "target_tokens": 3_456_789,
    "bleu": 37.6976, "chrf": 61.1, "training_text": [TEXT],
    "translated": [
        {"source_language": "en", "target_language": "de", "sentences": 1014, "compared": "in NFC",
         "signatures": {"bleu": "nrefs:1|tok:13a", "chrf": "nc:6"}}
    ],
    CALIBRATION: Calibration("news.en", 900, 0.6512, (0.0,) * 5, 0.0).to_json(),
}  # fmt: skip


def saved(path: Path, made: Checkpoint, *settings: str, **provenance: Any) -> Path:
    config = make_settings(*settings) if settings else made.config
    model_file.save(path, replace(made, config=config, provenance=provenance))
    return path


def described(model: Path) -> tuple[str, dict[str, Any]]:
    """The table, and the JSON object."""
    table = CliRunner().invoke(app.app, ["info", str(model)])
    facts = CliRunner().invoke(app.app, ["info", str(model), "--format", "json"])
    assert table.exit_code == facts.exit_code == 0 and not table.stderr, table.output
    return table.stdout, json.loads(facts.stdout)


def test_each_line_is_a_fact_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_model()
    shortlist = random_shortlist(made.vocabulary, 3)
    config = make_settings("data.license=cc0-1.0", "run_dir=runs/mine")
    file = tmp_path / "model.safetensors"
    model_file.save(file, replace(made, config=config, provenance=PROVENANCE, shortlist=shortlist))
    monkeypatch.setattr(model_file, "load", None)  # reads the weights
    table, facts = described(file)
    count = sum(weight.numel() for weight in made.weights.values())
    bergamot = "model.positions: interleaved: Bergamot needs concatenated"
    for label, value in (
        ("name", "mine"),
        ("model file", f"{file} ({file.stat().st_size / 2**20:.1f} MiB)"),
        ("languages", "en-de"),
        ("architecture", "Transformer: 1 encoder and 1 decoder layers, width 32, feed-forward 64, 2 heads"),
        ("parameters", f"{count:,}"),
        ("training", "1,200 steps, 3,456,789 target subwords"),
        ("written", "2017-06-12T17:57:34+00:00, nmt 0.1.0"),
        ("validation", "validation.en + validation.de, en-de, 1,014 sentences: BLEU 37.70 (nrefs:1|tok:13a)"),
        ("", "validation.en + validation.de, en-de, 1,014 sentences: chrF 61.10 (nc:6)"),
        ("vocabulary", "300 SentencePiece subwords, shared by both languages"),
        ("training text", "train.en + train.de, en-de, 20,000 pairs"),
        ("", "  train.en: SHA-256 ab12"),
        ("license", "of the training text: cc0-1.0"),
        ("export", "ctranslate2: yes"),
        ("confidence", "calibrated with news.en, 900 sentences, correlation with chrF 0.65"),
        ("shortlist", "yes"),
    ):
        assert f"\n{label:15}{value}\n" in f"\n{table}", table
    assert re.search(f"^ {{15}}bergamot: {re.escape(bergamot)}", table, re.MULTILINE)
    assert facts["model"]["parameters"] == count and facts["bytes"] == file.stat().st_size
    assert facts["export"]["bergamot"]["reason"].startswith(bergamot) and not facts["export"]["bergamot"]["possible"]
    assert facts["training_text"][0]["files"][1] == {"name": "train.de", "sha256": "cd34"}
    assert facts["scores"][0]["scores"]["bleu"] == {"score": 37.7, "signature": "nrefs:1|tok:13a"}
    assert facts["licenses"] == {"training_text": "cc0-1.0", "imported_model": None}
    assert facts["calibration"]["sentences"] == 900 and facts["shortlist"] is True


def keys(value: Any) -> Any:
    """The keys of an object, and of the objects in it."""
    return {key: keys(inner) for key, inner in value.items()} if isinstance(value, dict) else None


def test_the_keys_do_not_depend_on_the_model(tmp_path: Path) -> None:
    one = described(saved(tmp_path / "one", make_model(), **PROVENANCE))[1]
    recurrent = make_checkpoint(make_settings("model={architecture: recurrent}"))
    model_file.save(tmp_path / "two", recurrent)
    table, two = described(tmp_path / "two")
    for facts in (one, two):
        del facts["calibration"]  # an object or null
    assert keys(one) == keys(two)
    assert keys(one["training_text"][0]) == keys(two["training_text"][0])
    assert "recurrent (lstm): 2 encoder and 2 decoder layers, width 512" in table
    assert "only a transformer can be exported" in two["export"]["ctranslate2"]["reason"] and two["scores"] == []


def test_sets_and_directions_are_separate(tmp_path: Path) -> None:
    files = "source: a/train.en, target: a/train.de"
    corpora = f"[{{{files}}}, {{{files}, reversed: true}}]"
    both = tokenizer().with_tags(["<2de>", "<2en>"])
    settings = make_settings(f"data.train={corpora}", f"data.validation={corpora}")
    sets = [{"name": "en-de", "bleu": 21.239}, {"name": "de-en", "bleu": 31.0}]
    texts = [
        {"source_language": source, "target_language": target, "sentences": count, "compared": "", "signatures": {}}
        for source, target, count in (("en", "de", 1500), ("de", "en", 200))
    ]
    made = random_model(0, settings, Vocabulary(both, both))
    file = saved(tmp_path / "m", made, bleu=26.1, validation=sets, translated=texts)
    table, facts = described(file)
    assert "languages      en-de, <2de> before the source\n               de-en, <2en> before the source\n" in table
    assert "validation     train.en + train.de, en-de, 1,500 sentences: BLEU 21.24\n" in table
    assert "               train.en + train.de, de-en, 200 sentences: BLEU 31.00\n" in table and "26.1" not in table
    found = [
        (one["source"], one["target"], one["sentences"], one["scores"]["bleu"]["score"]) for one in facts["scores"]
    ]
    assert found == [("en", "de", 1500, 21.24), ("de", "en", 200, 31.0)]


def test_where_the_weights_come_from(tmp_path: Path) -> None:
    imported = {"imported_from": "Helsinki-NLP/opus-mt-en-de", "license": "cc-by-4.0"}
    table, facts = described(saved(tmp_path / "imported", make_model(), **imported))
    assert "weights        imported from Helsinki-NLP/opus-mt-en-de\n" in table
    assert "license        of the imported model: cc-by-4.0\n" in table
    assert "license        not stated\n" in described(saved(tmp_path / "none", make_model(), step=1))[0]
    start = {"file": "models/opus.safetensors", "sha256": "ab", "step": 10, **imported}
    for step in (100, 200):
        saved(tmp_path / f"step-{step}", make_model(), **{**PROVENANCE, "step": step, "start_from": start})
    model_file.save(tmp_path / "mean", averaging.average([tmp_path / "step-100", tmp_path / "step-200"]))
    table, facts = described(tmp_path / "mean")
    assert (
        "weights        mean of 2: step-100, step-200\n"
        "               training started from models/opus.safetensors, step 10, imported from "
        "Helsinki-NLP/opus-mt-en-de\n"
    ) in table
    assert "of the imported model: cc-by-4.0" in table
    assert "training       200 steps, 3,456,789 target subwords\n" in table and "SHA-256 ab12" in table
    assert facts["scores"] == []  # the scores of a checkpoint are not those of the mean
    assert [one["step"] for one in facts["weights"]["averaged"]] == [100, 200]
    chosen = {**PROVENANCE, "averaged": [{"file": "a", "step": 1}], "selected": "last 1"}
    assert "weights        a (selected: last 1)" in described(saved(tmp_path / "chosen", make_model(), **chosen))[0]
    assert "moving average, decay 0.999" in described(saved(tmp_path / "ema", make_model(), ema_decay=0.999))[0]


def test_a_run_folder_is_its_best_model_and_an_exported_folder_is_described(tmp_path: Path) -> None:
    file = saved(tmp_path / "run" / "best.safetensors", make_model(), **PROVENANCE)
    assert described(tmp_path / "run")[1]["file"] == str(file)
    export(file, "ctranslate2", tmp_path / "exported", lines=["one two"])
    table, facts = described(tmp_path / "exported")
    assert "CTranslate2 folder" in table and "300 SentencePiece subwords" in table and "news.en" in table
    assert facts["model"]["width"] == 32 and facts["model"]["parameters"] is None and facts["export"] == {}


def test_whether_it_can_be_exported_is_what_the_export_says(tmp_path: Path) -> None:
    """The same sentence, also for a model with more than one problem."""
    file = saved(tmp_path / "m", make_model("model.norm=pre", "model.positions=rotary"))
    facts = described(file)[1]
    for format in EXPORTERS:
        reason, destination = facts["export"][format]["reason"], tmp_path / format
        if reason is None:
            export(file, format, destination, lines=["one"])
        else:
            with pytest.raises(NmtError, match=f"^{re.escape(reason)}$"):
                export(file, format, destination, lines=["one"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.txt", b"some text", "not a model file, or one that is cut short or damaged"),
        ("my.yaml", b"data: {}", "a file of settings, not a model"),
        ("en-de.argosmodel", b"PK\x03\x04", "a package for Argos Translate, not for nmt: give the model file"),
        ("folder", None, "no checkpoint here: train first, or give a model file"),
        ("missing", b"", "no such file"),
    ],
)
def test_what_is_no_model_is_one_line(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is None:
        path.mkdir()
    elif content:
        path.write_bytes(content)
    done = CliRunner().invoke(app.app, ["info", str(path)])
    assert done.exit_code == 1 and not done.stdout
    [line] = done.stderr.splitlines()
    assert f"{path}: {message}" in line


def test_a_file_cut_short_is_found(tmp_path: Path) -> None:
    whole = saved(tmp_path / "whole", make_model()).read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-100])
    done = CliRunner().invoke(app.app, ["info", str(tmp_path / "cut")])
    assert done.exit_code == 1 and "cut short or damaged" in done.stderr


def test_the_outline_has_the_shapes_of_the_weights(tmp_path: Path) -> None:
    made = make_model()
    outline = model_file.load_outline(saved(tmp_path / "m", made))
    assert outline.vocabulary.protos == made.vocabulary.protos and outline.config == made.config
    assert {name: weight.shape for name, weight in outline.weights.items()} == {
        name: weight.shape for name, weight in made.weights.items()
    }
    assert {weight.device for weight in outline.weights.values()} == {torch.device("meta")}
