"""What somebody has who installs the wheel: in an empty folder, with no file of the repository near, from a config to a
served translation."""

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from helpers.commands import SECONDS, environment

ROOT = Path(__file__).parents[1]
TINY = "training.max_steps=6 training.warmup_steps=2 training.validate_every=3 training.checkpoint_every=3 "
TINY += "training.validation_sentences=4 model.d_model=16 model.heads=2 model.layers=1 model.feed_forward=16 "
TINY += "training.batch_tokens=512 vocabulary.size=400 decoding.max_extra_tokens=2"
# As the README shows them, where there is a model of a few steps.
FIRST = "init demo.yaml --preset demo --slurm"
COMMANDS = f"""
settings training.max_steps
split data/demo/test.en data/demo/test.de --output data/split --pairs 20
init my.yaml --train data/split/train.en data/split/train.de --validation data/split/test.en data/split/test.de
init --teacher teacher.yaml
prepare demo.yaml --report data.html {TINY}
train demo.yaml {TINY}
average-checkpoints runs/demo --last 2 --output demo.safetensors
translate demo.safetensors data/split/test.en --output output.de
evaluate demo.safetensors --source data/split/test.en --reference data/split/test.de
score demo.safetensors --source data/split/test.en --target data/split/test.de
inspect demo.safetensors Hello --output inside
report runs/demo --output report.html
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel's files, which is made from a copy: building leaves files beside the sources."""
    sources, wheels, site = (tmp_path_factory.mktemp(name) for name in ("sources", "wheels", "site"))
    for path in (ROOT / "pyproject.toml", ROOT / "LICENSE", *ROOT.glob("*.md")):
        shutil.copy(path, sources)
    shutil.copytree(ROOT / "nmt", sources / "nmt", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", wheels, sources]
    subprocess.run(build, check=True, timeout=SECONDS)
    (wheel,) = wheels.iterdir()
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", site, wheel], check=True, timeout=SECONDS)
    return site


def started(installed: Path, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-P", "-m", "nmt", *arguments]
    own = environment(PYTHONPATH=str(installed))
    return subprocess.Popen(
        command, cwd=folder, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=1
    )


def run(installed: Path, folder: Path, *arguments: str) -> str:
    process = started(installed, folder, *arguments)
    out, log = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, f"{arguments}: {log}"
    return out


def test_from_an_empty_folder_to_a_served_translation(installed: Path, tmp_path: Path) -> None:
    where = [sys.executable, "-P", "-c", "import nmt; print(nmt.__file__)"]
    found = subprocess.check_output(where, cwd=tmp_path, env=environment(PYTHONPATH=str(installed)), text=True)
    assert Path(found.strip()).is_relative_to(installed)
    run(installed, tmp_path, *FIRST.split())
    for path in (tmp_path / "data" / "demo").glob("train.*"):  # all of it would take seconds to prepare
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2000]))
    shown = {line.split()[0]: run(installed, tmp_path, *line.split()) for line in COMMANDS.strip().split("\n")}
    assert shown["settings"].startswith("training.max_steps\n") and shown["train"] == "runs/demo/best.safetensors\n"
    assert len((tmp_path / "output.de").read_text().splitlines()) == 20
    assert (tmp_path / "train.slurm").is_file() and (tmp_path / "inside" / "index.html").is_file()
    serving = started(installed, tmp_path, "serve", "demo.safetensors", "--port", "0", "--device", "cpu")
    try:
        assert serving.stderr
        said = iter(serving.stderr.readline, "")
        address = next(found[0] for line in said if (found := re.search(r"http://[\w.:]+", line)))
        request = urllib.request.Request(f"{address}/translate", json.dumps({"text": ["Hello"]}).encode())
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            assert json.load(answer)
        with urllib.request.urlopen(address, timeout=SECONDS) as page:
            assert "<html" in page.read().decode()
    finally:
        serving.terminate()
        serving.communicate(timeout=SECONDS)
    # What there is to export and import depends on other packages.
    for command in {"export", "import", "serve"}:
        assert "Example: nmt" in " ".join(run(installed, tmp_path, command, "--help").split())
