"""How many faults, planted at random in nmt/, do the tests find? Needs `pip install pytest-cov`, and half an hour.

1. `scripts/test.sh --cov=nmt --cov-context=test --cov-report=` writes in .coverage which tests run which line.
2. `python tests/planted_faults.py faults.json` draws 200 faults and runs, for each, tests that run its line. If the
   file exists, its faults are planted again; where a line has gone, another fault is drawn.
"""

import ast
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).parents[1]
COUNT, PROCESSES, MOST_TESTS, SECONDS = 200, 2, 40, 200
OPPOSITES = [("<", "<="), (">", ">="), ("==", "!="), ("and", "or"), ("True", "False"), ("+", "-"), ("min", "max")]
CHANGES = {old: new for pair in OPPOSITES for old, new in (pair, pair[::-1])}
CHANGES |= {
    "if": "if not",
    "while": "while not",
    "return": "return None and",
    "*": "+",
    "/": "*",
    "//": "*",
    "is": "is not",
}


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


def tests_by_line() -> dict[str, dict[int, list[str]]]:
    """Of each file, the tests that run each line, the most special first; 0: those that run any line of it."""
    data, found = CoverageData(str(ROOT / ".coverage")), {}
    data.read()
    for file in data.measured_files():
        of_file = found["nmt/" + file.split("/nmt/")[-1]] = {
            line: sorted({context.split("|")[0] for context in contexts if context})
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        of_file[0] = sorted({test for tests in of_file.values() for test in tests})
    lines_run = Counter(test for of_file in found.values() for tests in of_file.values() for test in tests)
    for tests in [tests for of_file in found.values() for tests in of_file.values()]:
        tests.sort(key=lambda test: lines_run[test])
    return found


def run(fault: dict[str, str], tests: dict[int, list[str]], folders: list[Path]) -> str:
    """Whether tests fail in a copy of this folder: found, missed, or hangs. Puts it into the fault too."""
    folder = folders.pop()
    before = (folder / fault["file"]).read_text()
    lines = before.splitlines()
    number = lines.index(fault["line"])
    lines[number] = fault["fault"]
    (folder / fault["file"]).write_text("\n".join(lines) + "\n")
    chosen = (tests.get(number + 1) or tests.get(0, []))[:MOST_TESTS]
    command = ["timeout", str(SECONDS), sys.executable, "-m", "pytest", "-xq", "-p", "no:cacheprovider", *chosen]
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True) if chosen else None
    fault["result"] = {None: "missed", 0: "missed", 124: "hangs"}.get(done and done.returncode, "found")
    said = done.stdout + done.stderr if done else "no test runs it"
    fault["pytest"] = next((line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))), said[-100:])
    (folder / fault["file"]).write_text(before)
    folders.append(folder)
    print(*fault.values(), sep="\n    ", flush=True)
    return fault["result"]


def main(file: Path) -> None:
    drawn, tests = draw(json.loads(file.read_text()) if file.exists() else []), tests_by_line()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(PROCESSES) as pool:
        names = [Path(folder, str(number)) for number in range(PROCESSES)]
        copies = [shutil.copytree(ROOT, name, ignore=shutil.ignore_patterns(".*")) for name in names]
        print(Counter(pool.map(lambda fault: run(fault, tests.get(fault["file"], {}), copies), drawn)))
    file.write_text(json.dumps(drawn, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
