"""Runs the commands of a documentation page in the current folder, as a reader who pastes them would."""

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from typer.testing import CliRunner

from nmt.cli import app

ROOT = Path(__file__).parents[2]


def page_commands(page: str) -> list[list[str]]:
    """The words of every command in the page's bash blocks, in order. page: such as `docs/course.md`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(re.sub(r"\\\n *", "", block) for block in blocks).split("\n")
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_page(
    page: str, added: Mapping[str, Sequence[str]] | None = None, skipped: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Run the page's commands one after the other; each must succeed. Returns each with its standard output.

    added: more arguments for a command of nmt, such as {"train": ["training.max_steps=20"]}, so that a test takes
    seconds. skipped: beginnings of commands that a test cannot run, such as `nmt serve`.
    """
    results = []
    for words in page_commands(page):
        line = shlex.join(words)
        if line.startswith(tuple(skipped)):
            continue
        if words[0] != "nmt":
            done = subprocess.run(line, shell=True, text=True, capture_output=True, check=False)
            status, output, errors = done.returncode, done.stdout, done.stderr
        else:
            file = words[words.index(">") + 1] if ">" in words else None
            arguments = words[1 : words.index(">")] if file else words[1:]
            ran = CliRunner().invoke(app.app, [*arguments, *(added or {}).get(words[1], ())])
            status, output, errors = ran.exit_code, ran.stdout, ran.stderr
            if file:
                Path(file).write_text(output, encoding="utf-8")
        assert status == 0, f"{page}: {line}\n{errors}"
        results.append((line, output))
    return results
