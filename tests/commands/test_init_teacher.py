"""The file of an endpoint to start from: it loads as it is, and with each of its comments uncommented."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli import app
from nmt.config.declaration import settings
from nmt.teachers import endpoint
from nmt.teachers.endpoint import Endpoint, Limit, Price
from nmt.teachers.prompts import Prompts

FILE = Path("teacher.yaml")


def init(*arguments: str) -> "tuple[int, str, str]":
    done = CliRunner().invoke(app.app, ["init", "--teacher", *arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(autouse=True)
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    status, out, log = init("teacher.yaml", "--target-language", "sw")
    assert (status, out) == (0, "teacher.yaml\n") and log.endswith("nmt translate teacher.yaml INPUT --dry-run\n")
    return FILE.read_text(encoding="utf-8")


def loaded_with(written: str, lines: "list[str]") -> Endpoint:
    """The endpoint of the file with these lines of it uncommented."""
    for line in lines:
        assert f"\n{line}\n" in written
    uncommented = "\n".join(re.sub("^# ?", "", line) for line in lines)
    FILE.write_text(written.replace("\n".join(lines), uncommented), encoding="utf-8")
    return endpoint.load(FILE)


def test_it_loads_as_it_is() -> None:
    loaded = endpoint.load(FILE)
    assert (loaded.source_language, loaded.target_language) == ("en", "sw")
    unset = {name for name, own in settings(Endpoint).items() if not own.required}
    assert {name for name in unset if getattr(loaded, name) != settings(Endpoint)[name].default} == set()


def test_every_setting_has_its_meaning_and_can_be_uncommented(written: str) -> None:
    for declaration in (Endpoint, Price, Limit, endpoint.Message):
        for name, own in settings(declaration).items():
            assert re.search(rf"^(# )?{name}: |`{name}`: ", written, re.MULTILINE), name
            assert own.meaning in written, name
    rest = written.partition("# --- The rest.\n\n")[2].rstrip("\n").split("\n")
    assert len(rest) == sum(not own.required for own in settings(Endpoint).values()) - 2  # prompt and messages
    for line in rest:
        name = line.removeprefix("# ").partition(":")[0]
        loaded = loaded_with(written, [line])
        if settings(Endpoint)[name].default is None:
            assert getattr(loaded, name) is not None, name
    assert loaded_with(written, [line for line in rest if line.startswith(("# price", "# limit"))]).price == Price(
        0.1, 0.4
    )


def test_each_prompt_of_a_model_can_be_uncommented(written: str) -> None:
    """And what is sent is what the model's card or chat template shows."""
    blocks = re.findall(r"^(# (?:prompt: \||messages:)\n(?:#(?:   .*)?\n)+)", written, re.MULTILINE)
    sent = []
    for block in blocks:
        [message] = Prompts(loaded_with(written, block.rstrip("\n").split("\n"))).chat("Two men.")
        assert message["role"] == "user"
        sent.append(message["content"])
    [default, structured, *models] = sent
    assert default == "Translate from English to Swahili. Answer with the translation only.\n\nTwo men."
    assert structured == [{"type": "text", "source_lang_code": "en", "target_lang_code": "sw", "text": "Two men."}]
    assert models == [
        "You are a professional English (en) to Swahili (sw) translator. Your goal is to accurately convey the meaning "
        "and nuances of the original English text while adhering to Swahili grammar, vocabulary, and cultural "
        "sensitivities.\nProduce only the Swahili translation, without any additional explanations or commentary. "
        "Please translate the following English text into Swahili:\n\n\nTwo men.",
        "Translate the following English source text to Swahili:\nEnglish: Two men.\nSwahili:",
        "Translate the following segment into Swahili, without additional explanation.\n\nTwo men.",
        "Translate the following text into Swahili. Note that you should only output the translated result without any "
        "additional explanation:\n\nTwo men.",
    ]
    FILE.unlink()
    assert init("teacher.yaml")[0] == 0
    assert loaded_with(FILE.read_text(), blocks[0].rstrip("\n").split("\n")).prompt.rstrip("\n") == endpoint.PROMPT


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["teacher.yaml"], 1, "teacher.yaml: exists already and is not overwritten: choose another name"),
        (["none/teacher.yaml"], 1, "none/teacher.yaml: no folder none: make it first, or choose another CONFIG"),
        (["teacher.txt"], 1, "teacher.txt: only a name in .yaml or .yml is read as an endpoint: choose such a name"),
        (["new.yaml", "--target-language", "xx"], 1, "target_language: xx: no language has this code"),
        (["new.yaml", "--slurm"], 2, "--teacher writes no settings of training: give only the languages with it"),
        (["new.yaml", "--preset", "demo"], 2, "give only the languages"),
    ],
)
def test_what_is_refused(written: str, arguments: "list[str]", status: int, message: str) -> None:
    found, out, log = init(*arguments)
    assert (found, out) == (status, "") and message in log
    assert status == 2 or log.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["teacher.yaml"] and FILE.read_text() == written
