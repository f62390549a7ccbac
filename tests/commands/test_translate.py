"""Translating shows how far it is, on a terminal on which no translation appears."""

import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from helpers.commands import environment
from helpers.model_files import make_checkpoint

import nmt
from nmt.checkpoints import model_file
from nmt.commands.output_format import OutputFormat
from nmt.commands.translate import translate
from nmt.commands.translation_job import TranslationJob
from nmt.config.schema import Config
from nmt.decoding.chunks import CHUNK_LINES


@pytest.fixture
def model(make_config: Callable[..., Config], tmp_path: Path) -> Path:
    model_file.save(tmp_path / "model", make_checkpoint(make_config("decoding.max_extra_tokens=3")))
    (tmp_path / "text").write_text("one two\n" * 20)
    return tmp_path / "model"


@pytest.mark.usefixtures("time_limit")
def test_a_pipe_gets_its_translations_before_it_sends_more(model: Path) -> None:
    """Lines are read ahead only from files. (INPUT is read in blocks, of which enough are written here.)"""
    command = [sys.executable, "-m", "nmt", "translate", str(model), "/dev/stdin"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True, env=environment()) as process:
        assert process.stdin is not None and process.stdout is not None
        with process.stdin:
            process.stdin.write(("one two" + " " * 80 + "\n") * (CHUNK_LINES + 1500))
            process.stdin.flush()
            answered = [process.stdout.readline() for _ in range(CHUNK_LINES)]
            process.stdin.write("one\n")
        assert len(set(answered)) == 1 and len(process.stdout.readlines()) == 1501
    assert process.returncode == 0


def test_text_with_tags_has_the_translation_of_the_text(model: Path) -> None:
    """From a file to a file, in chunks, and read line by line."""
    tagged, plain, out = (model.parent / name for name in ("tagged", "plain", "out"))
    lines = ["one two", "two <b>one</b>.", "", "<i>one</i>", "1 < 2 &amp; <u>two</u>"] * 3
    tagged.write_text("\n".join(lines) + "\n")
    plain.write_text("".join(unescape(re.sub("<[a-z/]+>", "", line)) + "\n" for line in lines))
    expected = nmt.load(model, "cpu").translate(plain.read_text().splitlines())
    for line_by_line in (False, True):
        as_html = OutputFormat(markup="html")
        translate(
            TranslationJob(
                model=model, source=tagged, output=out, format=as_html, line_by_line=line_by_line, device="cpu",
                overrides=["decoding.batch_tokens=64"],
            )
        )  # fmt: skip
        found = out.read_text().splitlines()
        assert [unescape(re.sub("<[a-z/]+>", "", line)) for line in found] == expected
        assert [re.findall("<[a-z/]+>", line) for line in found] == [re.findall("<[a-z/]+>", line) for line in lines]
        out.unlink()
