"""What each rule finds, and what it leaves alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config.schema import CleaningConfig
from nmt.data.cleaning.rules import scores
from nmt.data.cleaning.rules.characters import TextLines

SETTINGS = CleaningConfig()


def dropped(rule: str, text: str) -> bool:
    score = getattr(scores, rule)(TextLines.from_texts(["before", text, "after"]))
    assert score[0] == score[2] == 0
    return bool(score[1] > getattr(SETTINGS, rule))


BAD = {
    "encoding": [
        "FÃ¼r die BÃ¼rger", "GruÃŸ", "Itâ€™s", "caf\ufffd", "naÃ¯ve", "Ð¿Ñ€Ð¸Ð²ÐµÑ‚", "ä½\xa0å¥½", "20Â\xa0kg",
        "ðŸ˜€ ok", "M?nchen und K?ln", "bell\x07",
    ],
    "markup": ["<b>Hello</b>", "Tom &amp; Jerry", "a&nbsp;b", "5 &#39; 6", "x<br/>", '<a href="/x">y</a>', "&quot ; a"],
    "addresses": ["https://www.example.com/a/b", "www.example.com", "info@example.com or sales@example.com"],
    "symbols": ["|---|---|---| ***", "}{}{][][ ~~~ ===", "………………………………"],
    "repetition": ["ha " * 12, "!" * 40, "I do not know. " * 4, "我们" * 20, "And then: " + "no " * 12],
}  # fmt: skip
GOOD = {
    "encoding": [
        "« CAFÉ » und „CAFÉ“", "Il est inné\xa0»", "áš, už a řekl: „Ano“", "Größe: 20 m², 5 €", "¿Qué? ¡Sí!",
        "À\xa0: CAFÉ…",
        "What? Who?", "Ñandú, às 3 horas — é…", "ĐÀ NẴNG", "Â", "Why?Because", "a\tb",
    ],
    "markup": ["3 < 4 and 5 > 4", "R&D", "AT&T; more", "Q & A;", "I <3 you", "& so on;"],
    "addresses": ["See www.example.com for the complete list of our members.", "me@home", "http://"],
    "symbols": ["OK!", "...", "- \"No!\" - (he said) - 'no'.", "50 %", "你好！", "12:30–14:00, 5.2.2020"],
    "repetition": ["No, no, no!", "ha ha ha ha", "Wait. Wait for me. Wait for me.", "-" * 20, "1,000,000,000,000", ""],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in BAD.items() for text in texts])
def test_what_is_found(rule: str, text: str) -> None:
    assert dropped(rule, text)


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in GOOD.items() for text in texts])
def test_what_is_left_alone(rule: str, text: str) -> None:
    assert not dropped(rule, text)


@pytest.mark.parametrize(
    ("source", "target", "other"),
    [
        ("12 of 200", "13 von 300", True),
        ("12 of 200", "12 von 300", False),
        ("1,234.5 km", "1.234,5 km", False),
        ("5/12/2020", "12.5.2020", False),
        ("in 2012", "عام ٢٠١٢", False),
        ("2,000,000", "200万", False),
        ("at 3 p.m.", "um 15 Uhr", False),
        ("7 days", "sieben Tage", False),
        ("in 1999 and 2012", "damals", True),
        ("下午3点", "à 15 h", False),
        ("8 dogs", "20 Hunde", True),
        ("at 4 p.m.", "um 15 Uhr", True),
        ("4,728", "8,247", True),
        ("on June 12", "am 12.6.", False),
        ("on June 12", "am 13.6.", True),
        ("on June 12", "am 13.6.", True),
        ("35,000", "3万5千", False),
        ("the 1980s", "die 80er", False),
        ("10 inches", "35 cm", True),
        ("2 to 4 inches", "50 bis 100 Millimeter", False),
        ("At 3 pm", f"Um {'9' * 5000} Uhr", True),
    ],
)
def test_digits(source: str, target: str, other: bool) -> None:
    for pair in ((source, target), (target, source)):
        (score,) = scores.digits(*(TextLines.from_texts([side]) for side in pair), ("en", "de"))
        assert (score > SETTINGS.digits) == other


@pytest.mark.parametrize(
    ("source", "target", "other"),
    [("at 7 a.m.", "saa 1 asubuhi", False), ("at 7 a.m.", "saa 2 asubuhi", True)],
)
def test_hours_from_sunrise(source: str, target: str, other: bool) -> None:
    sides = [TextLines.from_texts([side]) for side in (source, target)]
    assert (scores.digits(*sides, ("en", "sw")) > SETTINGS.digits).tolist() == [other]
    assert (scores.digits(*sides, ("en", "de")) > SETTINGS.digits).all()


@pytest.mark.parametrize(
    ("code", "text", "foreign"),
    [
        ("ru", "Это хороший день для прогулки", False),
        ("ru", "This is a good day for a walk", True),
        ("ru", "iPhone 15", False),
        ("ja", "오늘은 텔레비전을 봅니다", True),
        ("en", "ﬁne naïve café 12 ½ ª", False),
        ("sr-Cyrl", "Dobar dan svima vama", True),
        ("am", "የCharlie Chaplin ፊልም ነው", False),
    ],
)
def test_script(code: str, text: str, foreign: bool) -> None:
    (score,) = scores.script(TextLines.from_texts([text]), code)
    assert (score > SETTINGS.script) == foreign


@pytest.mark.parametrize(
    ("source", "target", "copied"),
    [
        ("This sentence was not translated.", "This sentence was not translated.", True),
        ("This sentence is in both.", "This sentence is in both. Dieser Satz steht in beiden.", True),
        ("Angela Merkel, Berlin", "Angela Merkel, Berlin", False),
    ],
)
def test_copies(source: str, target: str, copied: bool) -> None:
    for pair in ((source, target), (target, source)):
        (score,) = scores.copies(*(TextLines.from_texts([side]) for side in pair))
        assert (score > SETTINGS.copies) == copied


def test_long_lines_without_spaces_take_no_longer_than_others() -> None:
    """Nothing here is quadratic in the length of a line: each rule would need hours for these."""
    for text in ("a" * 100_000 + "@", "<a " * 30_000, "&a" * 50_000, "1." * 50_000, "http://" * 15_000):
        lines = TextLines.from_texts([text])
        for rule in (scores.encoding, scores.markup, scores.addresses, scores.symbols, scores.repetition):
            assert rule(lines).shape == (1,)
        assert (
            scores.digits(lines, TextLines.from_texts(["1"]), ("en", "de")).shape
            == scores.copies(lines, lines).shape
            == (1,)
        )


TEXTS = st.lists(st.text("aB é?Ã¤â€™\u00a0»\ufffd1٢我<&;|!\n", max_size=40) | st.sampled_from(["ab" * 30, "ha " * 9]))


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_a_pairs_scores_do_not_depend_on_the_other_pairs(sources: list[str], targets: list[str]) -> None:
    pairs = list(zip(sources, targets, strict=False))
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    for rule in (scores.encoding, scores.markup, scores.addresses, scores.symbols, scores.repetition):
        together = rule(TextLines.from_texts(sides[0]))
        assert together.dtype == np.float32
        assert together.tolist() == [float(rule(TextLines.from_texts([text]))[0]) for text in sides[0]]
    for both in (lambda *lines: scores.digits(*lines, ("en", "de")), scores.copies):
        together = both(*map(TextLines.from_texts, sides))
        assert together.dtype == np.float32
        assert together.tolist() == [
            float(both(TextLines.from_texts([one]), TextLines.from_texts([other]))[0]) for one, other in pairs
        ]
    assert np.array_equal(
        scores.script(TextLines.from_texts(sides[0]), "en"),
        [scores.script(TextLines.from_texts([text]), "en")[0] for text in sides[0]],
    )


def repeated(text: str) -> int:
    """The score `repetition`, character by character."""
    low = [ord(one) % 256 for one in text]
    most = 0
    for lag in range(1, 65):
        stretch = 0
        for place in range(lag, len(low)):
            stretch = stretch + 1 if low[place] == low[place - lag] else 0
            if stretch >= 16:
                most = max(most, stretch - lag)
    return most


@settings(deadline=None)
@given(st.lists(st.text("ab", max_size=8).map(lambda text: text * 9) | st.text("ab ", max_size=60)))
def test_repetition_is_the_longest_stretch(texts: list[str]) -> None:
    assert scores.repetition(TextLines.from_texts(texts)).tolist() == [repeated(text) for text in texts]
