"""Commands that write: every call fails in turn, or two commands run at once. No file is lost, and one line says why.

After each fault the same command is run again, and has the result of a run without faults. By default a part of the
faults is tried, spread over all calls; with `--thorough` each kind of fault at each call.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest
from helpers import commands, faults
from helpers.runs import config_text, rows_without_clock, write_corpus

from nmt.files import tensors

Sound = Callable[[str], tuple[object, list[str]]]
OLD = "this was here before\n"
# The user's own files, with names like those of files that are not finished.
BYSTANDERS = (
    "thesis.unfinished/chapter", "store/tokens-0123456789abcdef.unfinished/notes", ".out.de.part", ".model.part",
    ".ct2.part/notes", "store/lock", ".nmt-0123456789abcdef0123456789abcdef.part/notes",
)  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command that writes. result: what it leaves in a folder, to be compared; replaced: a file that it replaces."""

    arguments: tuple[str, ...]
    result: Callable[[Path], object]
    replaced: str | None = None
    needs_run: bool = True


def weights(path: Path) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in tensors.read(path)[0].items()}


def trained(folder: Path) -> object:
    names = ("best.safetensors", "checkpoints/step-00000003.safetensors", "checkpoints/step-00000006.safetensors")
    assert (folder / "run" / "config.yaml").read_text().startswith("#")
    return [weights(folder / "run" / name) for name in names], rows_without_clock(folder / "run")


def exported(folder: Path) -> object:
    return sorted(path.name for path in (folder / "ct2").iterdir()), (folder / "ct2" / "model.bin").read_bytes()


COMMANDS = {  # each writes in another way
    "init": Command(("init", "new.yaml"), lambda folder: (folder / "new.yaml").read_text(), needs_run=False),
    "train": Command(("train", "{config}"), trained, needs_run=False),
    "translate": Command(
        ("translate", "run", "{corpus}/validation.en", "--output", "out.de"),
        lambda folder: (folder / "out.de").read_text(),
        "out.de",
    ),
    "export": Command(("export", "run", "--format", "ctranslate2", "--output", "ct2"), exported),
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, "train", 120, seed=1)
    write_corpus(folder, "validation", 6, seed=2)
    text = config_text(folder, Path("run")).replace(f"{folder}/store", "store")
    for before, after in (
        ("max_steps: 20", "max_steps: 6"), ("validate_every: 10", "validate_every: 3"),
        ("checkpoint_every: 5", "checkpoint_every: 3"), ("log_every: 4", "log_every: 2"), ("size: 300", "size: 290"),
    ):  # fmt: skip
        assert before in text
        text = text.replace(before, after)
    (folder / "config.yaml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run was prepared and trained."""
    folder = tmp_path_factory.mktemp("whole")
    done = commands.run("train", corpus / "config.yaml", folder=folder)
    assert done.returncode == 0, done.stderr.decode()
    return folder


def folder_for(command: Command, whole: Path, place: Path) -> Path:
    """A new folder in which the command can be run, with the user's own files."""
    shutil.rmtree(place, ignore_errors=True)
    if command.needs_run:
        shutil.copytree(whole, place)
    for name in (*BYSTANDERS, *([command.replaced] if command.replaced else [])):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(OLD)
    return place


def arguments_of(command: Command, corpus: Path) -> list[str]:
    return [one.format(config=corpus / "config.yaml", corpus=corpus) for one in command.arguments]


def run(command: Command, corpus: Path, folder: Path, at: int, kind: str) -> tuple[int, str, list[str]]:
    """Exit status, standard error, and the calls that were made."""
    log = folder.with_suffix(".log")
    log.unlink(missing_ok=True)
    done = commands.run(
        *arguments_of(command, corpus), folder=folder, before=partial(faults.install, folder, at, kind, log)
    )
    return done.returncode, done.stderr.decode(), log.read_text().split("\n")[:-1] if log.exists() else []


@pytest.fixture(scope="module")
def without_faults(corpus: Path, whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A function from a command's name to its result when nothing disturbs it, and the calls that it makes."""

    @cache
    def found(name: str) -> tuple[object, list[str]]:
        command, sound = COMMANDS[name], tmp_path_factory.mktemp(name) / "sound"
        status, said, calls = run(command, corpus, folder_for(command, whole, sound), 0, "EIO")
        assert status == 0 and calls, said
        return command.result(sound), calls

    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_fault_in_any_call_loses_nothing(
    corpus: Path, whole: Path, without_faults: Sound, tmp_path: Path, pytestconfig: pytest.Config, name: str
) -> None:
    command = COMMANDS[name]
    expected, calls = without_faults(name)
    tried = [(at, kind) for at in range(1, len(calls) + 1) for kind in faults.KINDS]
    if not pytestconfig.getoption("thorough"):  # each kind once: in the first, the second and the last third
        tried = [(1 + len(calls) * (1 + 2 * third) // 6, kind) for third, kind in enumerate(faults.KINDS)]
    for at, kind in tried:
        folder = folder_for(command, whole, tmp_path / "faulty")
        status, said, reached = run(command, corpus, folder, at, kind)
        what = f"{name}: {kind} at call {at}, {reached[at - 1] if at <= len(reached) else 'not reached'}: {said}"
        assert status in ((-9,) if kind == "kill" else (0, 1)) or at > len(reached), what
        assert "Traceback" not in said and said.startswith("error: ") + said.count("\nerror: ") == (status == 1), what
        for bystander in BYSTANDERS:
            assert (folder / bystander).read_text() == OLD, f"{what}: {bystander}"
        if command.replaced is not None and (folder / command.replaced).read_bytes() != OLD.encode():
            assert command.result(folder) == expected, what  # whole, where the fault came after it was in its place
        if (folder / "ct2").exists():
            assert command.result(folder) == expected, what
            shutil.rmtree(folder / "ct2")  # an export takes no other folder's place
        if (folder / "new.yaml").exists():
            assert command.result(folder) == expected, what
            (folder / "new.yaml").unlink()  # init overwrites nothing
        status, said, _ = run(command, corpus, folder, 0, kind)
        assert status == 0, f"{what}; and again: {said}"
        assert command.result(folder) == expected, what
        check_nothing_else(folder)


@pytest.mark.parametrize(
    "name",
    [name if name == "translate" else pytest.param(name, marks=pytest.mark.thorough) for name in COMMANDS],
)
def test_two_at_once_give_one_whole_result_or_a_refusal(
    corpus: Path, whole: Path, without_faults: Sound, tmp_path: Path, pytestconfig: pytest.Config, name: str
) -> None:
    command = COMMANDS[name]
    expected, _ = without_faults(name)
    for _ in range(10 if pytestconfig.getoption("thorough") else 1):
        folder = folder_for(command, whole, tmp_path / "shared")
        both = [commands.Started(*arguments_of(command, corpus), folder=folder) for _ in range(2)]
        ended = [one.ended() for one in both]
        said = [one.stderr.decode() for one in ended]
        statuses = sorted(one.returncode for one in ended)
        assert statuses in ([0, 0], [0, 1]), said
        for one in ended:
            refusals = [line for line in one.stderr.decode().split("\n") if line.startswith("error: ")]
            assert len(refusals) == one.returncode and b"Traceback" not in one.stderr, said
            assert not refusals or re.search("another (nmt|process)|exists already|not empty", refusals[0]), said
        assert command.result(folder) == expected, said
        check_nothing_else(folder)


def check_nothing_else(folder: Path) -> None:
    """The user's own files are as they were, and nothing unfinished is left."""
    for bystander in BYSTANDERS:
        assert (folder / bystander).read_text() == OLD, bystander
    left = [path for path in folder.rglob(".nmt-*.part") if not (path / "notes").exists()]
    assert not left, left
    assert not (folder / ".out.de.nmt-part").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_files_are_on_the_disk_before_they_have_their_names(without_faults: Sound, name: str) -> None:
    """Each file is synced before it is renamed, and the folder that it is renamed in after that."""
    _, calls = without_faults(name)
    moved = [
        (number, call.partition(" ")[2])
        for number, call in enumerate(calls)
        if call.startswith(("replace ", "rename ", "link "))
    ]
    assert moved
    for number, path in moved:
        before, after = calls[:number], calls[number:]
        # The content was made in the folder that was made last: it is synced after the last write to it.
        made = next(call for call in reversed(before) if call.startswith("fsync ") and ".part/content" in call)
        content = made.removeprefix("fsync ")
        unsynced = before[len(before) - before[::-1].index(made) :]
        assert not [call for call in unsynced if call.startswith("write ") and content in call], path
        parent = str(Path(path).parent)
        assert f"fsync {parent}" in after, path
