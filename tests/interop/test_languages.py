"""The languages of an imported model are those that its files name; where they name none, its translations say them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.other_models import marian_npz

from nmt.commands import imports
from nmt.config.language_pairs import LanguagePair
from nmt.errors import NmtError
from nmt.interop.languages import NamedLanguages, pairs_of
from nmt.interop.sample_text import ENGLISH
from nmt.interop.sample_translations import problem

GERMAN = (
    "Am nächsten Wochenende besuchen wir unsere Großeltern.",
    "Die Kinder spielen auf der Straße vor der Schule.",
    "Ich möchte wissen, wie viel dieses Buch kostet.",
    "Sie arbeitet seit vielen Jahren in diesem Krankenhaus.",
    "Es regnete den ganzen Tag, also blieben wir zu Hause.",
    "Können Sie mir bitte sagen, wann der nächste Zug abfährt?",
)


@pytest.mark.parametrize(("named", "tokens", "wanted", "differs"), [
    (("en", "de"), (), ("en", "de"), False),
    (("eng", "deu"), (), ("en_GB", "de-AT"), False),
    (("en", "de"), (), ("de", "en"), True),
    (("en", "de"), (), ("en", "nl"), True),
    (("fr", "de"), (), ("en", "de"), True),
    (("en", "sh"), (), ("en", "hr"), False),  # much alike
    (("en", "zh"), (), ("en", "cmn_Hans"), False),
    (("mul", "en"), (), ("es", "en"), False),  # codes of several languages
    (("ROMANCE", "en"), (), ("es", "en"), False),
    (("ine", "gem"), ("deu", "nld"), ("ru", "de"), False),
    (("en", "gem"), ("deu", "nld"), ("ru", "de"), True),
    (("en", "de"), (), ("xx-klingon", "de"), False),  # not known to be another one
    ((None, None), (), ("de", "en"), False),
])  # fmt: skip
def test_other_languages_than_those_of_the_files_are_refused(
    named: tuple[str | None, str | None], tokens: Sequence[str], wanted: Sequence[str], differs: bool
) -> None:
    names = NamedLanguages(*named, where="tokenizer_config.json")
    if not differs:
        assert pairs_of(names, tokens, wanted)[0].source == wanted[0]
        return
    with pytest.raises(NmtError) as refused:
        pairs_of(names, tokens, wanted)
    known = ",".join([str(named[0]), *(tokens or [str(named[1])])])
    given = ",".join(wanted)
    assert str(refused.value) == f"--languages {given}: tokenizer_config.json says {known}: leave out --languages"


def test_languages_are_in_the_tokenizer_or_in_the_name() -> None:
    about = {"source_lang": "en", "target_lang": "de"}
    assert NamedLanguages.find(about, "opus-mt-fr-es") == NamedLanguages("en", "de", "tokenizer_config.json")
    for name in ("opus-mt-en-de", "opus-mt-tc-big-en-de"):
        for unsaid in ({}, {"source_lang": "en"}, {"source_lang": None, "target_lang": None}):
            assert NamedLanguages.find(unsaid, name) == NamedLanguages("en", "de", f"its name, {name},")
    assert NamedLanguages.find({}, "my-model-en-de") == NamedLanguages()
    with pytest.raises(NmtError, match="do not name its languages: give --languages"):
        pairs_of(NamedLanguages(), (), ())


@pytest.mark.parametrize(("wanted", "name", "wrong"), [
    (("en", "de"), "model", False), (("de", "en"), "model", True), (("en", "de"), "opus-mt-en-de", False),
])  # fmt: skip
def test_where_nothing_names_them_a_few_translations_do(
    wanted: tuple[str, str],
    name: str,
    wrong: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path, seen = marian_npz(tmp_path).rename(tmp_path / f"{name}.npz"), list[str]()
    (tmp_path / "decoder.yml").rename(tmp_path / f"{name}.npz.decoder.yml")

    class WritesGerman:
        def translate(self, lines: Sequence[str], to: str) -> list[str]:
            assert to == wanted[1]
            seen.extend(lines)
            return [GERMAN[i % len(GERMAN)] for i in range(len(lines))]

    monkeypatch.setattr(imports.nmt, "load", lambda *_: WritesGerman())
    imports.import_model(str(path), tmp_path / "out.safetensors", wanted)
    assert (tmp_path / "out.safetensors").exists()
    assert set(ENGLISH) < set(seen) if name == "model" else not seen  # what names them is believed
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    found = f"{len(seen)} of {len(seen)} sample translations are not in English, and {len(seen)} seem to be German"
    assert said == [f"--languages de,en: {found}: import it again if these are not its languages"] * wrong


@pytest.mark.parametrize(("languages", "outputs", "wrong"), [
    (("en", "de"), [*GERMAN[:3], *ENGLISH[:3]], False),  # half are copies
    (("en", "de"), [*GERMAN[:2], *ENGLISH[:4]], True),
    (("en", "nl"), GERMAN, True),
    (("en", "de"), ["ja", "12", "…", "Ok", " "], False),  # too short to be sure
    (("en", "tlh"), GERMAN, False),  # not known to the identifier
    (("en", "fr"), GERMAN[:2], False),  # too few
])  # fmt: skip
def test_a_warning_needs_most_translations(languages: tuple[str, str], outputs: Sequence[str], wrong: bool) -> None:
    assert bool(problem(lambda lines: outputs, LanguagePair(*languages))) == wrong
