"""Text as tokenizers write it, beside text that is not."""

import pytest

from nmt.data.cleaning.tokenized_text import TokenizerTraces, contrast

RAW = ["He's here, isn't he.", "It cost $3,000.50 ...", 'He said "yes".', "Well .. no, .5 of it.", ""] * 25


def compared(one: list[str], other: list[str]) -> str:
    return contrast("a.en", TokenizerTraces().add(one), "b.en", TokenizerTraces().add(other)) or ""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["He is here , is he ?", "It costs $ 3,000 ."],
            "looks tokenized and b.en does not (100% and 0% of their lines",
        ),
        (["He&apos;s here.", "He said &quot;yes&quot;."], "is escaped and b.en is not (100% and 0% of their lines"),
        (["He is he@@ re."], "is split into subwords and b.en is not (100% and 0% of their lines have"),
    ],
)
def test_each_trace_is_found_beside_plain_text(lines: list[str], expected: str) -> None:
    found = compared(lines * 25, RAW)
    assert found.startswith(f"a.en {expected}")
    assert found == compared(RAW, lines * 25).replace("a.en", "A").replace("b.en", "a.en").replace("A", "b.en")
    assert ";" not in found.replace("&apos;", "")  # nothing else is
    assert compared(lines * 25, lines * 25) == compared(RAW, RAW) == ""
    assert compared(lines * 2 + RAW, RAW) == "" or "subwords" in expected  # some lines in web text are like that


@pytest.mark.parametrize(
    "ordinary",
    [
        ["Qui est là ? Moi ! Voici : « oui »."],
        ["यह एक पुस्तक है ।", "हाँ, यह है ।"],
        ["AT&T; R&D, <b>.", "@@ -1,2 +1 @@"],
    ],
)
def test_what_languages_write_themselves_is_no_trace(ordinary: list[str]) -> None:
    assert compared(ordinary * 25, RAW) == ""


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        (["यह है ।"], ["यह है।"], "looks tokenized and b.en does not (100% and 0% of their lines with such"),
        (["यह है ।", "यह है।"], ["यह है।"], ""),
        (["l&apos;eau", "et", "et"], ["l’eau", "et", "et"], "is escaped and b.en is not (100% and 0%"),
    ],
)
def test_punctuation_of_other_scripts_and_curly_quotation_marks(
    text: list[str], other: list[str], expected: str
) -> None:
    found = compared(text * 50, other * 50)
    assert found.startswith(f"a.en {expected}") if expected else not found


def test_a_few_lines_that_could_show_a_trace_say_nothing() -> None:
    assert compared(["ไม่มี"] * 200 + ["ok ."], RAW) == ""
    numbers = ["seven, or so"] * 7 + ["none of it"] * 393
    assert compared(numbers, ["100 , 200"] + ["none of it"] * 399) == compared(numbers * 9, ["100 , 200"] * 3) == ""
