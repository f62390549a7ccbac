"""How many faults, planted at random in nmt/, do the tests find?

`python tests/planted_faults.py faults.json` draws 200 and runs, for each, the tests that are nearest to it: about 20
minutes. If the file exists, its faults are planted again; where a line has gone, another fault is drawn.
"""

import ast
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import sacrebleu  # noqa: F401  (loaded once, for all tests)
import torch  # noqa: F401

ROOT, COUNT, SECONDS = Path(__file__).parents[1], 200, 300
OPPOSITES = [("<", "<="), (">", ">="), ("==", "!="), ("and", "or"), ("True", "False"), ("+", "-"), ("min", "max")]
CHANGES = {old: new for pair in OPPOSITES for old, new in (pair, pair[::-1])}
CHANGES |= {"if": "if not", "while": "while not", "return": "return None and", "*": "+", "/": "*", "//": "*"}
CHANGES |= {"is": "is not"}


def faults_in(text: str) -> list[tuple[str, str]]:
    """Lines that stand once in this text, each with one thing changed: some do not compile, or change only a type."""
    lines, found = text.splitlines(), []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        (row, start), end, old = token.start, token.end[1], token.string
        new = str(int(old) + 1) if token.type == tokenize.NUMBER and old.isdigit() else CHANGES.get(old)
        if new:
            found.append((lines[row - 1], lines[row - 1][:start] + new + lines[row - 1][end:]))
    found += [(line, re.sub(r"\S.*", "pass", line)) for line in lines if re.fullmatch(r"\s+[a-z][\w.]*\(.*\)", line)]
    return [(line, fault) for line, fault in found if lines.count(line) == 1]


def draw(kept: list[dict[str, str]]) -> list[dict[str, str]]:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "nmt").rglob("*.py"))}
    drawn = [fault for fault in kept if texts.get(fault["file"], "").splitlines().count(fault["line"]) == 1]
    candidates = [(file, *fault) for file, text in texts.items() for fault in faults_in(text)]
    random.Random(1).shuffle(candidates)
    while len(drawn) < COUNT:
        file, line, fault = candidates.pop()
        try:
            ast.parse(texts[file].replace(line, fault))
        except SyntaxError:
            continue
        drawn.append({"file": file, "line": line, "fault": fault})
    return drawn


def nearest(tree: Path, file: str) -> Iterator[list[Path]]:
    """Its own tests, then those that name it, then the others of its folder."""
    module = Path(file).relative_to("nmt")
    folder = tree / "tests" / module.parent
    own = [path for path in [folder / f"test_{module.stem}.py"] if path.exists()]
    others = [path for path in sorted((tree / "tests").rglob("test_*.py")) if path not in own]
    naming = [path for path in others if re.search(rf"\b{module.stem}\b", path.read_text())]
    yield own
    yield sorted(naming, key=lambda path: path.parent != folder)[:12]
    yield [path for path in others if path.parent == folder and path not in naming]


def status(tree: Path, tests: list[Path]) -> int | None:
    """What pytest ends with, in a fork of this process, which has loaded what takes long; None: not in SECONDS."""
    if not (child := os.fork()):
        os.setsid()
        os.chdir(tree)
        os.environ["PYTHONPATH"], sys.path[0] = str(tree), str(tree)
        for stream in (1, 2):
            os.dup2(os.open("log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), stream)
        os._exit(int(pytest.main(["-xq", "-p", "no:cacheprovider", *map(str, tests)])))
    for _ in range(10 * SECONDS):
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(code)
        time.sleep(0.1)
    os.killpg(child, 9)
    os.waitpid(child, 0)
    return None


def result(fault: dict[str, str]) -> str:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        tree = shutil.copytree(ROOT, Path(folder, "nmt"), ignore=shutil.ignore_patterns(".*"))
        path = tree / fault["file"]
        lines = path.read_text().splitlines()
        path.write_text("\n".join([fault["fault"] if line == fault["line"] else line for line in lines]) + "\n")
        for tests in nearest(tree, fault["file"]):
            if tests and (code := status(tree, tests)) != 0:
                return "not in time" if code is None else "found"
    return "missed"


def main(file: Path) -> None:
    drawn = draw(json.loads(file.read_text()) if file.exists() else [])
    for fault in drawn:
        fault["result"] = result(fault)
        print(*fault.values(), sep="\n    ", flush=True)
        file.write_text(json.dumps(drawn, indent=1, ensure_ascii=False))
    print(Counter(fault["result"] for fault in drawn))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
