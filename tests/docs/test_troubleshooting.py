"""The page with symptoms quotes messages that nmt still has."""

import ast
import re
from pathlib import Path

from nmt.config import schema

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
VARIABLE = "\0"  # in place of a value that is inserted into a message
NOT_MESSAGES = {"<unk>"}


def first_cells() -> list[str]:
    """The first column of every table, without headings."""
    rows = re.findall(r"^\| (.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [cell for cell in rows if cell not in ("what you see", "---")]


def quoted_messages() -> list[str]:
    return [text for cell in first_cells() for text in re.findall(r"`([^`]+)`", cell) if text not in NOT_MESSAGES]


def literals() -> str:
    """Every string of the code except docstrings, one a line, with VARIABLE for each inserted value."""
    texts = []
    for path in (ROOT / "nmt").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                texts.append(re.sub(r"%[sd]", VARIABLE, node.value))
            elif isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else VARIABLE for part in node.values)
                texts.append("".join(map(str, parts)))
    return "\n".join(text.replace("\n", " ") for text in texts)


def test_quoted_messages_are_in_the_code() -> None:
    code = literals()
    missing = [text for text in quoted_messages() if not re.search(".*".join(map(re.escape, text.split("…"))), code)]
    assert missing == []


def test_settings_in_commands_are_valid() -> None:
    spans = re.findall(r"`([^`]+)`", PAGE.read_text(encoding="utf-8"))
    overrides = re.findall(r"\b((?:data|model|training|decoding)\.\w+=(?:\{[^}]*\}|\[[^]]*\]|\S+))", "\n".join(spans))
    assert len(overrides) >= 15
    needed = ("run_dir=r", "data.source_language=en", "data.target_language=de")
    needed += ("data.train=[{file: a.tsv}]", "data.validation={file: b.tsv}")
    for override in overrides:
        schema.parse("", "page", (*needed, override))


def test_there_are_enough_symptoms() -> None:
    assert len(first_cells()) >= 50 and len(quoted_messages()) >= 40
