"""What a code of a language stands for."""

import pytest

from nmt.config.language_codes import known_language, same_code, scripts, two_letters
from nmt.errors import NmtError


@pytest.mark.parametrize(
    ("code", "expected", "written"),
    [
        ("en", "en", ("Latn",)),
        ("pt-BR", "pt", ("Latn",)),
        ("zho-TW", "zh", ("Hani", "Bopo")),
        ("ja", "ja", ("Hira", "Kana", "Hani")),
        ("iw", "he", ("Hebr",)),
        ("mey", "mey", ()),
    ],
)
def test_codes(code: str, expected: str, written: tuple[str, ...]) -> None:
    assert known_language(code) == expected
    assert scripts(code) == written


@pytest.mark.parametrize("code", ["xx", "english please", "12", ""])
def test_codes_of_no_language(code: str) -> None:
    with pytest.raises(NmtError, match="no language has this code"):
        known_language(code)


def test_codes_that_mean_the_same_and_those_of_two_letters() -> None:
    codes = [("de", "deu"), ("de", "DE"), ("pt", "pt-BR"), ("xx!", "xx!")]
    assert [same_code(*both) for both in codes] == [True, True, False, False]
    assert [two_letters(code) for code in ("de_AT", "deu", "DE", "hsb", "x?y")] == ["de", "de", "de", "hsb", "x?y"]
