"""The table of translations with their confidence, and its order: the least sure first."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import commands
from helpers.model_files import make_checkpoint
from helpers.runs import config_text
from typer.testing import CliRunner, Result

import nmt
from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands import translate
from nmt.commands.file_job import FileJob
from nmt.commands.output_format import OutputFormat
from nmt.commands.translation_job import TranslationJob
from nmt.config import schema
from nmt.decoding.confidence import CALIBRATION, Calibration
from nmt.files.text import read_lines
from nmt.loading.opened_model import open_model

LINES = ["one two", "", "a\tb\u2028c", "three", "one two", "   ", "four five six seven", "eight", "one two", "nine ten"]
CALIBRATED = Calibration("dev.en", 200, 0.5, (-3.0, 1.0, -1.0, 2.0, 3.0), 30.0).to_json()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With PyTorch, which hardly depends on the batch. Beside it, `plain` has no calibration."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("model")
    text = config_text(folder, folder / "run")
    text = text.replace("beam_size: 2", "beam_size: 2, max_extra_tokens: 3, engine: torch")
    checkpoint = make_checkpoint(schema.parse(text, "test"))
    model_file.save(folder / "plain", checkpoint)
    model_file.save(folder / "model", replace(checkpoint, provenance={CALIBRATION: CALIBRATED}))
    return folder / "model"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def rows(model: Path) -> list[str]:
    """What is written, in the order of the input."""
    expected = []
    for number, [best] in enumerate(open_model(model).translator("cpu").hypotheses(LINES), 1):
        confidence = "" if best.confidence is None else f"{best.confidence:.1f}"
        source = LINES[number - 1].replace("\t", " ").replace("\u2028", " ")
        expected.append(f"{number}\t{confidence}\t{source}\t{best.text}")
    return expected


def least_sure_first(rows: list[str]) -> list[str]:
    """With the first of equals first, and lines without words last."""
    table = [row.split("\t") for row in rows]
    sure = sorted(float(confidence) for _, confidence, *_ in table if confidence)
    assert len({*sure}) < len(sure) == 8
    indices = [i for value in dict.fromkeys(sure) for i, row in enumerate(table) if row[1] and float(row[1]) == value]
    return [rows[i] for i in [*indices, 1, 5]]


def run(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app.app, ["translate", *map(str, arguments), "--device", "cpu"], input=text)


def test_a_stream_a_file_and_two_processes_give_the_same_table(
    model: Path, source: Path, rows: list[str], tmp_path: Path
) -> None:
    text, ordered = source.read_text(encoding="utf-8"), ("--order", "confidence")
    assert run(model, "--format", "tsv", text=text).stdout.split("\n")[:-1] == rows
    assert run(model, "--format", "tsv", "--line-by-line", text=text).stdout.split("\n")[:-1] == rows
    assert run(model, *ordered, text=text).stdout.split("\n")[:-1] == least_sure_first(rows)
    assert run(model, source, "--output", tmp_path / "one", *ordered).exit_code == 0
    many = ("--output", tmp_path / "two", *ordered, "--nproc-per-node", "2")
    done = commands.run("translate", model, source, *many)
    assert done.returncode == 0, done.stderr
    assert list(read_lines(tmp_path / "one")) == list(read_lines(tmp_path / "two")) == least_sure_first(rows)
    assert {path.name for path in tmp_path.iterdir()} == {"in", "one", "two"}


def test_equal_numbers_keep_their_order_and_nine_is_before_ten() -> None:
    rows = ["1\t\ta\t", "2\t10.0\ta\tx", "3\t9.5\ta\tx", "4\t100.0\ta\tx", "5\t\tb\t", "6\t9.5\tb\ty", "7\t0.0\tb\ty"]
    ordered = OutputFormat(table="confidence").in_order(rows)
    assert [row[0] for row in ordered] == list("7362415")
    assert list(OutputFormat(table="input").in_order(rows)) == rows


def test_a_job_that_continues_is_sorted_as_a_whole(model: Path, source: Path, rows: list[str], tmp_path: Path) -> None:
    def job() -> FileJob:
        format = OutputFormat(table="confidence")
        request = TranslationJob(model=model, source=source, output=tmp_path / "out", format=format)
        return replace(translate.job_of(request, translate.open_models(request)), chunk_lines=3)

    translator = open_model(model).translator("cpu")
    with pytest.raises(KeyboardInterrupt, match="out: 6 of 10 lines are translated"), job().locked():
        job().translate(translator, 0, 2)  # the chunks of lines 1 to 3 and 7 to 9
        raise KeyboardInterrupt
    [kept] = tmp_path.glob(".out.nmt-part/7-9-*")
    kept.write_text(kept.read_text(encoding="utf-8").replace(rows[7], rows[7] + " kept"), encoding="utf-8")
    with job().locked():
        job().translate(translator)
        job().finish()
    expected = [*rows[:7], rows[7] + " kept", *rows[8:]]
    assert list(read_lines(tmp_path / "out")) == least_sure_first(expected)


@pytest.mark.parametrize(
    "search", [("decoding.beam_size=1",), ("decoding.method=sample", "--n-best", "3"), ("--n-best", "2")]
)
def test_json_has_a_confidence_for_each_translation(model: Path, search: tuple[str, ...]) -> None:
    calibration = Calibration.from_json(CALIBRATED)
    assert calibration is not None
    words, empty = map(
        json.loads, run(model, "--format", "json", *search, text="one two three\n\n").stdout.splitlines()
    )
    plain = json.loads(run(model.with_name("plain"), "--format", "json", *search, text="one two three\n").stdout)
    assert len(words["translations"]) == int(search[-1][-1])
    for one, other in zip(words["translations"], plain["translations"], strict=True):
        assert one.pop("confidence") > 0 and one == other
        assert len(one["pieces"]) == one["subwords"] and len(one["source_pieces"]) == one["source_subwords"]
    assert all("confidence" not in one and one["subwords"] == 0 for one in empty["translations"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--format", "tsv", "--n-best", "2"), "leave out --n-best, --scores and --format json"),
        (("--order", "confidence", "--scores"), "leave out --n-best, --scores and --format json"),
        (("--order", "confidence", "--markup", "html"), "--prefixes, --format and --order"),
        (("--format", "tsv", "--markup", "xml"), "--prefixes, --format and --order"),
        (("--order", "confidence", "--format", "json"), "leave out --n-best, --scores and --format json"),
    ],
)  # fmt: skip
def test_what_has_no_table_is_refused(model: Path, source: Path, options: tuple[str, ...], words: str) -> None:
    done = run(model, source, "--output", source.with_name("out"), *options)
    assert done.exit_code == 2 and words in done.stderr and not source.with_name("out").exists()


def test_without_a_calibration_the_table_has_no_confidence_and_no_order(
    model: Path, source: Path, rows: list[str]
) -> None:
    """And the messages say how to get one, before any work."""
    plain, out = model.with_name("plain"), ("--output", source.with_name("out"))
    for output in ((), out):
        refused = run(plain, source, *output, "--order", "confidence")
        reason = f"{plain}: no calibration, so it gives no confidence: first use nmt calibrate"
        assert (refused.exit_code, refused.stderr) == (1, f"error: {reason}\n")
    together = ("--ensemble", plain)
    refused = run(model, source, *out, "--order", "confidence", *together)
    assert refused.stderr == "error: an ensemble has no confidence: leave out --order confidence and --review-below\n"
    assert {path.name for path in source.parent.iterdir()} == {"in"}
    empty = ["\t".join([number, "", *texts]) for number, _, *texts in (row.split("\t") for row in rows)]
    done = run(plain, source, *out, "--format", "tsv")
    assert commands.messages(done.stderr) == f"no confidence: {plain} has no calibration: see nmt calibrate\n"
    assert list(read_lines(out[1])) == empty
    done = run(model, source, "--format", "tsv", *together)
    assert done.exit_code == 0 and done.stderr.count("an ensemble has no confidence: ") == 1


def test_the_example_in_python_gives_the_same_order(model: Path, rows: list[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "python.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    [example] = [block for block in blocks if "to_read" in block]
    names: dict[str, Any] = {"translator": nmt.load(model, "cpu"), "lines": LINES}
    exec(example, names)
    assert [rows[i] for i in names["to_read"]] == least_sure_first(rows)[:-2]
