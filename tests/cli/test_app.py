"""The commands as a person or a pipe sees them, each in a process of its own."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from helpers.commands import SECONDS, Started, messages, run
from helpers.runs import WORDS, config_text, logged_rows, rows_of, rows_without_clock

import nmt
from nmt.checkpoints import model_file
from nmt.files import tensors as tensor_file

RECURRENT = "model={architecture: recurrent, embedding_size: 8, hidden_size: 16, attention_choice: hard}"
NMT = [sys.executable, "-c", "from nmt.cli.app import main; main()"]


@pytest.fixture
def trained(trained_run: Path) -> Path:
    """The folder of a run that has learned its corpus somewhat."""
    return trained_run


def told_of(trained: Path) -> str:
    """What a command says of the model that the run stands for."""
    return (
        f"model: {trained}/best.safetensors, step {model_file.load_provenance(trained / 'best.safetensors')['step']}\n"
    )


def test_a_run_writes_what_it_promises(corpus: Path, tmp_path: Path) -> None:
    config, folder = tmp_path / "config.yaml", tmp_path / "run"
    config.write_text(config_text(corpus, folder))
    done = run("train", config)
    assert (done.returncode, done.stdout.decode()) == (0, f"{folder}/best.safetensors\n"), done.stderr.decode()
    assert {path.name for path in folder.iterdir()} == {
        "config.yaml", "metrics.jsonl", "samples.jsonl", "sessions.jsonl", "train.log", "checkpoints",
        "best.safetensors", "state",
    }  # fmt: skip
    rows = rows_of(folder / "metrics.jsonl")
    assert rows[-1]["step"] == 20 and [row["step"] for row in rows if "bleu" in row] == [10, 20]
    assert "step 20" in (folder / "train.log").read_text()


def test_as_many_lines_out_as_in(trained: Path) -> None:
    done = run("translate", trained, text=b"one two three\n\nfour\n")
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.decode().split("\n")
    assert len(lines) == 4 and lines[1] == "" and lines[3] == ""
    assert set(lines[0].split()) <= set(WORDS.values()) and lines[2] == "vier"
    # Neither U+2028 nor a form feed ends a line; a last line needs no end; CRLF is one.
    done = run("translate", trained, text="one\u2028two\r\nthree\x0cfour\n\x00 five".encode())
    assert done.stdout.count(b"\n") == 3


def test_translating_a_file_to_a_file_is_the_same_as_through_pipes(trained: Path, corpus: Path, tmp_path: Path) -> None:
    source = corpus / "validation.en"
    done = run("translate", trained, source, "--output", tmp_path / "out.de")
    assert (done.returncode, done.stdout) == (0, b"")
    piped = run("translate", trained, "-", "--output", "-", text=source.read_bytes()).stdout
    assert (tmp_path / "out.de").read_bytes() == piped
    assert run("translate", trained, "--line-by-line", text=source.read_bytes()).stdout == piped
    assert nmt.load(trained).translate(source.read_text().removesuffix("\n").split("\n")) == (
        piped.decode().removesuffix("\n").split("\n")
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "out.de"] and not Path("-").exists()


def test_n_best_and_scores(trained: Path) -> None:
    rows = run("translate", trained, "--n-best", 2, text=b"one two\n\nfour\n").stdout.decode().split("\n")[:-1]
    columns = [row.split("\t") for row in rows]
    assert [column[0] for column in columns] == ["1", "1", "2", "3", "3"]
    assert float(columns[0][1]) >= float(columns[1][1])
    assert columns[0][2] != columns[1][2]
    scored = run("translate", trained, "--scores", text=b"one two\n").stdout.decode().rstrip("\n").split("\t")
    assert scored[1] == columns[0][2]
    assert float(scored[0]) == pytest.approx(float(columns[0][1]), abs=1e-5)  # one line was searched, not three


def test_settings_of_a_trained_model(trained: Path, tmp_path: Path) -> None:
    plain = run("translate", trained, "--n-best", 2, text=b"one two\n").stdout
    assert run("translate", trained, "decoding.beam_size=4", "--n-best", 4, text=b"one two\n").stdout.count(b"\n") == 4
    assert run("translate", trained, "-", "decoding.min_length=7", "--n-best", 2, text=b"one two\n").stdout != plain
    again = run("translate", trained, "--ensemble", trained, "--n-best", 2, text=b"one two\n").stdout
    one, other = ([row.split(b"\t")[2] for row in found.removesuffix(b"\n").split(b"\n")] for found in (again, plain))
    assert one == other
    prefixes, glossary = tmp_path / "prefixes", tmp_path / "glossary"
    prefixes.write_text("vier f\u00fcnf\n", encoding="utf-8")
    glossary.write_text("two\tneun drei\n", encoding="utf-8")
    found = run("translate", trained, "--prefixes", prefixes, text=b"one two\n").stdout.decode()
    assert found.startswith("vier f\u00fcnf")
    done = run("translate", trained, "--glossary", glossary, text=b"one two\n")
    said = messages(done.stderr).removeprefix(told_of(trained)).removeprefix("warning: ")
    assert said.startswith("glossary: 1 term in 1 of 1 lines: 1 ")
    assert ("neun drei" in done.stdout.decode()) != said.endswith("1 not inserted: line 1: two -> neun drei\n")


def test_json_and_given_translations(trained: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("one two\n\nfour\n", encoding="utf-8")
    rows = [json.loads(row) for row in run("translate", trained, source, "--format", "json").stdout.split(b"\n") if row]
    best = [row["translations"][0] for row in rows]
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert len(best[0]["alignment"]) == len(best[0]["pieces"]) == len(best[0]["token_scores"])
    target.write_text("".join(one["text"] + "\n" for one in best), encoding="utf-8")
    scored = run("score", trained, "--source", source, "--target", target, "--output", "-").stdout.decode().split("\n")
    assert float(scored[0].split("\t")[0]) == pytest.approx(best[0]["score"], abs=1e-4)
    as_json = run("score", trained, "--source", source, "--target", target, "--format", "json").stdout.split(b"\n")
    assert json.loads(as_json[2])["translations"][0]["text"] == best[2]["text"]


def test_average_and_evaluate(trained: Path, corpus: Path, tmp_path: Path) -> None:
    averaged = tmp_path / "averaged.safetensors"
    done = run("average-checkpoints", trained, "--last", 2, "--output", averaged)
    assert (done.returncode, done.stdout.decode()) == (0, f"{averaged}\n")
    named = tmp_path / "named.safetensors"
    run("average-checkpoints", *model_file.checkpoints(trained)[-2:], "--output", named)
    first, second = model_file.load(averaged).weights, model_file.load(named).weights
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())

    source, reference = corpus / "validation.en", corpus / "validation.de"
    kept = tmp_path / "kept.de"
    done = run("evaluate", averaged, "--source", source, "--reference", reference, "--format", "json", "--output", kept)
    scores = json.loads(done.stdout)
    assert [score["name"] for score in scores] == ["BLEU", "chrF2", "TER"]
    assert all("version:" in score["signature"] for score in scores)
    again = run("evaluate", "--hypothesis", kept, "--reference", reference, "--language", "de", "--format", "json")
    unlike = {
        "system": str(averaged),
        "bytes": averaged.stat().st_size,
        "words_per_second": scores[0]["words_per_second"],
    }
    assert [score | unlike for score in json.loads(again.stdout)] == scores
    two = run("evaluate", "--hypothesis", kept, "--reference", reference, "--reference", kept)
    rows = {line.split()[0]: line.split()[1:] for line in two.stdout.decode().split("\n\n")[0].split("\n")}
    assert rows["chrF2"] == ["100.00", "±", "0.00"] and rows["length"] == ["ratio", "1.000"]
    assert "\nBLEU   nrefs:2|" in two.stdout.decode()


def test_an_exported_folder_is_a_model_like_the_run(trained: Path, corpus: Path, tmp_path: Path) -> None:
    source, reference = corpus / "validation.en", corpus / "validation.de"
    done = run("export", trained, "--format", "ctranslate2", "--output", tmp_path / "out", "--sample", source)
    assert done.returncode == 0, done.stderr.decode()
    figures, folder = done.stdout.decode().removesuffix("\n").split("\n")
    assert figures == "greedy search: 20 of 20 lines have the same translation in nmt and CTranslate2"
    assert folder == str(tmp_path / "out")
    text = source.read_bytes()
    assert run("translate", folder, text=text).stdout == run("translate", trained, text=text).stdout
    scores = [run("evaluate", model, "--source", source, "--reference", reference) for model in (folder, trained)]
    first, second = (re.sub(rb"per second +[\d.,]+", b"", one.stdout).split() for one in scores)
    assert first == second != []


def test_a_report_is_one_file(trained: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = run("report", trained, "--output", page)
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"{page}\n", b"")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and '"name":"run"' in text
    assert list(tmp_path.iterdir()) == [page]
    done = run("report", trained, "--output", "-")
    assert (done.returncode, done.stderr, Path("-").exists()) == (0, b"", False)
    assert done.stdout.startswith(b"<!DOCTYPE html>") and done.stdout.rstrip().endswith(b"</html>")
    done = run("report", trained, tmp_path)
    said = f"error: {tmp_path}: has no config.yaml, which nmt train writes when it begins: give a run folder\n"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", said)


def test_mistakes_are_one_line_and_status_1(trained: Path, corpus: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.de"
    short.write_text("eins\n")
    config, copy = trained / "config.yaml", tmp_path / "copy"
    (copy / "state").mkdir(parents=True)
    shutil.copy(config, copy)
    for arguments, words in [
        (["train", tmp_path / "none.yaml"], "none.yaml: no such file"),
        (["train", config, "model.dropuot=1"], "model.dropout"),
        (["train", copy / "config.yaml"], f"to continue in {copy}, add run_dir={copy}; to train in {trained}, give"),
        (["prepare", config, "--report", "-"], "--report -: standard output is not possible here: name a file"),
        (["translate", tmp_path / "none.safetensors"], "no such file"),
        (["translate", short, trained], "MODEL comes first: nmt translate MODEL INPUT"),
        (["translate", trained, short, "--output", tmp_path / "no" / "where"], "where: no folder"),
        (["translate", trained, "--n-best", 9], "decoding.beam_size"),
        (["translate", trained, "-", "training.max_steps=2"], "only decoding settings"),
        (
            ["score", trained, "--source", short, "--target", corpus / "validation.de"],
            f"{short} has 1 lines and {corpus}/validation.de has 20: each line needs its translation",
        ),
        (["inspect", trained, os.fsdecode(b"one \xff")], "TEXT: not UTF-8"),
    ]:
        done = run(*arguments)
        *_, message = done.stderr.decode().removesuffix("\n").split("\n")
        assert done.returncode == 1, (arguments, message)
        assert message.startswith("error: ") and words in message, message
        assert done.stdout == b""


def test_no_output_takes_the_place_of_what_is_read(trained: Path, corpus: Path, tmp_path: Path) -> None:
    model, source, target, link = (tmp_path / name for name in ("m.safetensors", "a.en", "a.de", "link"))
    for path, of in ((model, model_file.locate(trained)), (source, corpus / "validation.en"), (target, source)):
        path.write_bytes(of.read_bytes())
    link.symlink_to(source)
    counted = tmp_path / "counted"
    counted.write_text("eins\n")
    texts = ("--source", source, "--reference", target)
    newest = model_file.checkpoints(trained)[-1]
    for arguments, output in [
        (["translate", model, source], link),
        (["translate", model, source, "--line-by-line"], source),
        (["evaluate", model, *texts], target),
        (["evaluate", model, *texts, "--training-text", counted, "--details"], counted),
        (["average-checkpoints", trained, "--last", 2], newest),
    ]:
        before = output.read_bytes()
        done = run(*arguments, "--output", output)
        said = f"error: {output}: is an input of this command and would be overwritten: choose another --output\n"
        assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", said), arguments
        assert output.read_bytes() == before
    done = run("evaluate", model, newest, *texts, "--output", tmp_path / "x", "--output", tmp_path / "x")
    assert (done.returncode, b"named twice" in done.stderr) == (1, True)
    for arguments in (["evaluate", model, *texts], ["average-checkpoints", newest]):
        done = run(*arguments, "--output", "-")
        assert (done.returncode, b"error: --output -: " in done.stderr, Path("-").exists()) == (1, True, False)


def test_usage_is_status_2() -> None:
    for arguments in (
        ["tranlate"],
        ["translate"],
        ["translate", "m", "--beam-size", "0"],
        ["evaluate", "--reference", "x"],
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, b""), arguments
        assert b"Traceback" not in done.stderr


@pytest.mark.thorough
def test_training_loads_no_compiler_unless_it_compiles(corpus: Path, tmp_path: Path) -> None:
    """PyTorch's optimizers would import it, which takes almost as long as importing PyTorch itself."""
    (tmp_path / "config.yaml").write_text(config_text(corpus, tmp_path / "run"))
    settings = ["training.max_steps=2", "training.optimizer=muon", "training.clip_norm=1", "training.ema_decay=0.9"]
    arguments = ["train", str(tmp_path / "config.yaml"), *settings, "--device", "cpu"]
    code = f"import sys; from nmt.cli.app import app; app({arguments}, standalone_mode=False); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    assert {"torch", "nmt.training.muon"} <= set(modules)
    assert "torch._dynamo" not in modules


def test_closed_streams_are_told(trained: Path) -> None:
    """Before any work, where standard output is closed: the files of the evaluation need not be there."""
    scored = ["evaluate", "--hypothesis", "nowhere.de", "--reference", "nowhere.de", "--language", "de"]
    for arguments, closed, said in (
        (["translate", str(model_file.locate(trained))], "<&-", "standard input"),
        (scored, ">&-", "standard output is closed: redirect it to a file with > FILE"),
    ):
        done = subprocess.run(
            ["sh", "-c", f"{shlex.join([*NMT, *arguments])} {closed}"], capture_output=True, text=True
        )
        told = messages(done.stderr)
        assert (done.returncode, told.count("\n")) == (1, 1) and told.startswith(f"error: {said}"), told


def test_only_training_heeds_what_schedulers_tell_every_process(trained: Path, corpus: Path, tmp_path: Path) -> None:
    told = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    source, config = corpus / "validation.en", trained / "config.yaml"
    done = run("translate", trained, source, "--output", tmp_path / "out.de", **told)
    assert (done.returncode, messages(done.stderr)) == (0, told_of(trained))
    assert (tmp_path / "out.de").read_text().count("\n") == 20
    for wrong, said in ((told | {"RANK": "abc"}, "RANK=abc"),):
        done = run("train", config, **wrong)
        assert done.returncode == 1 and done.stderr.count(b"\n") == 1
        assert done.stderr.startswith(b"error: ") and said in done.stderr.decode()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_saves_and_ends(corpus: Path, tmp_path: Path, number: signal.Signals, status: int) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(config_text(corpus, tmp_path / "run"))
    endless = ("training.max_steps=100000", "training.validate_every=100000", "training.log_every=1")
    process = Started("train", config, *endless)
    wait_for_metrics(process, tmp_path / "run", rows=3)
    process.send_signal(number)
    done = process.ended()
    assert done.returncode == status, done.stderr
    stderr = done.stderr.decode()
    assert "saved at step" in stderr
    assert "Traceback" not in stderr, stderr  # whole: pytest would shorten it
    done = run("train", config, "training.max_steps=5", "training.validate_every=5")
    assert done.returncode == 0 and (b"resuming" in done.stderr)


STAGES = """data.stages=[
    {weights: {train: 3, validation: 1}, steps: 13}, {weights: {validation: 1}, passes: {validation: 2.5}},
    {weights: {train: 1, validation: 1}, steps: 19}, {weights: {train: 1}}]"""


@pytest.mark.parametrize(
    "changes",
    [
        (STAGES, "data.pool_pairs=150", "training.consistency=simcut"),
        pytest.param((RECURRENT, "training.token_cutoff=0.1"), marks=pytest.mark.thorough),
    ],
    ids=["stages, simcut", "recurrent, token cutoff"],
)
def test_killed_at_any_moment_the_run_ends_the_same(corpus: Path, tmp_path: Path, changes: tuple[str, ...]) -> None:
    settings = [
        *changes, "training.max_steps=60", "training.validation_bleu=false", "training.validate_every=20"
    ]  # fmt: skip
    if STAGES in changes:
        corpora = [f"{{source: {corpus}/{name}.en, target: {corpus}/{name}.de, name: {name}}}"
                   for name in ("train", "validation")]  # fmt: skip
        settings += [f"data.train=[{', '.join(corpora)}]", "data.validation_in_training=warn"]
    config = tmp_path / "config.yaml"
    config.write_text(config_text(corpus, tmp_path / "run"))
    assert run("train", config, *settings, f"run_dir={tmp_path / 'whole'}").returncode == 0
    for rows in (1, 6):  # lines of metrics after which it is killed: long before its end, as this process may sleep
        process = Started("train", config, *settings)
        wait_for_metrics(process, tmp_path / "run", rows)
        assert process.runs
        process.send_signal(signal.SIGKILL)
        process.ended()
    assert run("train", config, *settings).returncode == 0
    for folder in ("state", "checkpoints"):
        whole, parts = (sorted((tmp_path / name / folder).glob("*.safetensors")) for name in ("whole", "run"))
        assert [path.name for path in whole] == [path.name for path in parts]
        for one, other in zip(whole, parts, strict=True):
            tensors = tensor_file.read(other)[0]
            assert all(torch.equal(tensor, tensors[name]) for name, tensor in tensor_file.read(one)[0].items())
    whole_rows, rows_ = (rows_without_clock(tmp_path / name) for name in ("whole", "run"))
    assert whole_rows == rows_


def wait_for_metrics(process: Started, folder: Path, rows: int) -> None:
    """Wait until metrics.jsonl has this number of rows, or the process has ended or hangs."""
    end = time.monotonic() + SECONDS
    while process.runs and time.monotonic() < end and logged_rows(folder) < rows:
        time.sleep(0.002)
