"""What `nmt settings` prints: every setting, of either architecture, in lines of a width."""

import re

from typer.testing import CliRunner

from nmt.cli import app
from nmt.config.declaration import all_settings
from nmt.config.reference import text
from nmt.config.schema import Config


def titles(of: str) -> list[str]:
    return [line.partition(" ")[0] for line in of.split("\n") if re.match(r"[a-z_.\[\]]+($| \([a-z]+: )", line)]


def test_every_setting_is_there_in_lines_that_fit() -> None:
    whole = text(None, 80)
    assert set(all_settings(Config)) <= set(titles(whole))
    running = [line for line in whole.split("\n") if not re.match(r"  .*[{\\]| +(line 21|override)", line)]
    assert max(map(len, running)) <= 80
    assert "](" not in whole and "**" not in whole and "```" not in whole


def test_every_setting_alone_is_there_with_what_it_takes() -> None:
    for path, setting in all_settings(Config).items():
        [first, *_] = text(path, 10_000).split("\n\n")
        assert " ".join(first.split()).startswith(f"{path} ") and setting.expected.partition(",")[0] in first


def test_a_section_a_name_alone_and_both_architectures() -> None:
    assert {path.partition(".")[0] for path in titles(text("vocabulary", 80))} == {"vocabulary"}
    assert text("max_steps", 80) == text("training.max_steps", 80)
    assert text("model.dropout", 80).count("model.dropout (architecture: ") == 2
    assert set(titles(text("data.train[].weight", 80))) == {"data.train[].weight"}


def test_the_command() -> None:
    done = CliRunner().invoke(app.app, ["settings", "training.max_steps"])
    assert (done.exit_code, done.stdout) == (0, text("training.max_steps", 80) + "\n")
    done = CliRunner().invoke(app.app, ["settings", "max_step"])
    assert (done.exit_code, done.stderr) == (1, "error: max_step: no such setting: did you mean max_steps?\n")
