"""Answers of chat models: what stands around a translation is taken off, and faults are found by the rule that is for
them."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.data_section import CleaningConfig
from nmt.config.language_codes import english_name
from nmt.config.language_pairs import LanguagePair
from nmt.errors import NmtError
from nmt.teachers.answers import AnswerRules
from nmt.teachers.endpoint import load

SOURCES = (
    "The 250 children in the park are drinking cold water.",
    "My sister bought 14 books at the market yesterday.",
    "We waited 45 minutes for the last train to the city.",
)
TRANSLATIONS = {  # of these sentences, in eight scripts
    "de": (
        "Die 250 Kinder im Park trinken kaltes Wasser.",
        "Meine Schwester hat gestern auf dem Markt 14 Bücher gekauft.",
        "Wir haben 45 Minuten auf den letzten Zug in die Stadt gewartet.",
    ),
    "ru": (
        "250 детей в парке пьют холодную воду.",
        "Моя сестра вчера купила на рынке 14 книг.",
        "Мы ждали последний поезд в город 45 минут.",
    ),
    "el": (
        "Τα 250 παιδιά στο πάρκο πίνουν κρύο νερό.",
        "Η αδελφή μου αγόρασε χθες 14 βιβλία στην αγορά.",
        "Περιμέναμε 45 λεπτά το τελευταίο τρένο για την πόλη.",
    ),
    "ar": (
        "يشرب 250 طفلاً في الحديقة ماءً بارداً.",
        "اشترت أختي 14 كتاباً من السوق أمس.",
        "انتظرنا 45 دقيقة آخر قطار إلى المدينة.",
    ),
    "hi": (
        "पार्क में 250 बच्चे ठंडा पानी पी रहे हैं।",
        "मेरी बहन ने कल बाज़ार से 14 किताबें खरीदीं।",
        "हमने शहर जाने वाली आखिरी ट्रेन के लिए 45 मिनट इंतज़ार किया।",
    ),
    "zh": (
        "公园里的250个孩子正在喝冷水。",
        "我妹妹昨天在市场上买了14本书。",
        "我们等了45分钟才等到去城里的末班火车。",
    ),
    "ja": (
        "公園の250人の子どもたちが冷たい水を飲んでいます。",
        "姉は昨日、市場で本を14冊買いました。",
        "私たちは町へ行く最終電車を45分待ちました。",
    ),
    "ko": (
        "공원에 있는 아이들 250명이 차가운 물을 마시고 있습니다.",
        "제 여동생은 어제 시장에서 책 14권을 샀습니다.",
        "우리는 도시로 가는 마지막 기차를 45분 동안 기다렸습니다.",
    ),
}
PAIRS = [(code, line) for code in TRANSLATIONS for line in range(len(SOURCES))]
OTHER_SCRIPT = dict(zip(TRANSLATIONS, [*list(TRANSLATIONS)[1:], "el"], strict=True))
OTHER_LANGUAGE = {
    "de": "Mijn zus heeft gisteren op de markt veertien boeken gekocht.",
    "ru": "Мая сястра ўчора купіла на рынку чатырнаццаць кніг.",
    "ar": "خواهرم دیروز چهارده کتاب از بازار خرید و به خانه آورد.",
    "hi": "माझ्या बहिणीने काल बाजारातून चौदा पुस्तके विकत घेतली आहेत.",
}
REFUSALS = {
    "de": "Es tut mir leid, aber ich kann diesen Text nicht übersetzen.",
    "ru": "К сожалению, я не могу перевести этот текст.",
    "el": "Λυπάμαι, αλλά δεν μπορώ να μεταφράσω αυτό το κείμενο.",
    "ar": "عذرا، لا يمكنني ترجمة هذا النص.",
    "hi": "क्षमा करें, मैं इसका अनुवाद नहीं कर सकता।",
    "zh": "抱歉，我无法翻译这段文字。",
    "ja": "申し訳ありませんが、そのご要望にはお答えできません。",
    "ko": "죄송하지만 해당 요청은 도와드릴 수 없습니다.",
}


@cache
def rules(code: str) -> AnswerRules:
    return AnswerRules(CleaningConfig(), LanguagePair("en", code))


def check(source: str, answer: str, code: str = "de") -> tuple[str, str]:
    (checked,) = rules(code).check([source], [answer])
    return checked.text, checked.reason


def more(code: str, line: int) -> str:
    """The sentences of a language, from a line on."""
    return " ".join(TRANSLATIONS[code][line:] + TRANSLATIONS[code][:line])


# Faults by the reason that finds them: each makes an answer of a translation, its language and its number.
FAULTS: dict[str, Callable[[str, str, int], str]] = {
    "empty": lambda good, code, line: "```\n\n```",
    "refusal": lambda good, code, line: REFUSALS[code],
    "comment": lambda good, code, line: f"{good} (Note: this is a literal translation.)",
    "several lines": lambda good, code, line: f"{good}\n{good[:-1]}!",
    "copy": lambda good, code, line: SOURCES[line].upper(),
    "copies": lambda good, code, line: f"{good} {good} {SOURCES[line]}",
    "too short": lambda good, code, line: good[: len(good) // 3],
    "too long": lambda good, code, line: f"{more(code, line)} {good.replace(' ', '  ')}",
    "script": lambda good, code, line: TRANSLATIONS[OTHER_SCRIPT[code]][line],
    "language": lambda good, code, line: OTHER_LANGUAGE.get(code, OTHER_LANGUAGE["de"]),
    "repetition": lambda good, code, line: good + 12 * good[-4:],
    "digits": lambda good, code, line: good.translate(str.maketrans("0145", "7777")),
    "markup": lambda good, code, line: f"<p>{good}<br>",
    "encoding": lambda good, code, line: good[:-4] + "\ufffd" + good[-3:],
    "symbols": lambda good, code, line: f"{good} {'~#|*' * (len(good) // 2)}",
    "addresses": lambda good, code, line: f"{good} https://example.org/{'path' * len(good)}",
}


def test_good_answers_are_kept() -> None:
    for code, good in TRANSLATIONS.items():
        checked = rules(code).check(SOURCES, good)
        assert [(answer.text, answer.reason) for answer in checked] == [(text, "") for text in good]


@pytest.mark.parametrize("expected", FAULTS)
def test_a_fault_is_found_by_its_rule(expected: str) -> None:
    found = Counter[str]()
    for code, line in PAIRS:
        answer = FAULTS[expected](TRANSLATIONS[code][line], code, line)
        found[check(SOURCES[line], answer, code)[1]] += 1
    assert found[""] == 0 and found.most_common(1)[0][0] == expected, found


@pytest.mark.parametrize("name", ["language", "script", "digits", "repetition", "markup", "encoding"])
def test_a_rule_that_is_switched_off_finds_nothing(name: str) -> None:
    setting: dict[str, Any] = {name: None}
    off = AnswerRules(replace(CleaningConfig(), **setting), LanguagePair("en", "de"))
    answers = [FAULTS[name](good, "de", line) for line, good in enumerate(TRANSLATIONS["de"])]
    assert name not in {answer.reason for answer in off.check(SOURCES, answers)}


MARKED = [
    *('"{}"', "“{}”", "„{}“", "«{}»", "« {} »", "‹{}›", "「{}」", "'{}'"),
    *("″{}″", "**{}**"),
]  # fmt: skip
LABELLED = [
    *("```\n{}\n```", "```text\n{}\n```", "```{}```", "\n\n {} \n", "### Translation\n{}"),
    *("Translation: {}", "**Translation**: {}", "**Translation:** {}"),
    *("Here is the translation:\n\n{}", "Sure! Here's the {language} translation:\n{}", "Translation ({language}): {}"),
    *("{language}: {}", "Deutsch: {}", "Übersetzung: {}", "翻译：{}", "Перевод: {}", "الترجمة: {}", "अनुवाद: {}"),
    "<translation>{}</translation>",
    *("{}<|im_end|>", "{source} → {}", "{source} = {}", '"{source}" -> "{}"', "English: {source}\n{language}: {}"),
    *("The {language} translation of the sentence is:\n\n{}", "Sure!\n\n{}"),
]  # fmt: skip


BEFORE = ["", "<think>\nIs it: a park?\n</think>\n\n", "so I answer\n</think>\n"]


@given(
    st.sampled_from(PAIRS),
    st.sampled_from(["{}", *MARKED]),
    st.sampled_from(["{}", *LABELLED]),
    st.sampled_from(BEFORE),
)
def test_what_is_around_an_answer_is_taken_off(pair: tuple[str, int], marked: str, labelled: str, before: str) -> None:
    code, line = pair
    good = TRANSLATIONS[code][line]
    answer = labelled.format(marked.format(good), source=SOURCES[line], language=english_name(code))
    assert check(SOURCES[line], before + answer, code) == (good, "")


@given(
    st.sampled_from(PAIRS),
    st.sampled_from([text for text in MARKED + LABELLED if "{source}" not in text and "\n" not in text]),
)
def test_what_the_source_has_too_stays(pair: tuple[str, int], wrapping: str) -> None:
    code, line = pair
    sides = SOURCES[line], TRANSLATIONS[code][line]
    source, good = (wrapping.format(side, language=english_name(code)) for side in sides)
    assert check(source, good, code)[0] == good


@pytest.mark.parametrize(
    ("source", "good"),
    [
        ("He said: I will come tomorrow.", "Er sagte: Ich komme morgen."),
        ("Answer: the train is late.", "Antwort: Der Zug hat Verspätung."),
        ('"Come in," she said, "and sit down."', "„Komm herein“, sagte sie, „und setz dich.“"),
        ('"Salt" and "pepper" are on the table.', '"Salz" und "Pfeffer" stehen auf dem "Tisch"'),
        ("Sorry, I can't help you with your bags.", "Tut mir leid, ich kann Ihnen mit den Taschen nicht helfen."),
        ("I'm sorry, I can't translate this letter.", "Es tut mir leid, ich kann diesen Brief nicht übersetzen."),
        ("Please give me the text of the song.", "Bitte geben Sie mir den Text des Liedes."),
        ("Note: the shop is closed on Sunday.", "Hinweis: Der Laden ist am Sonntag geschlossen."),
        ("Angela Merkel, Emmanuel Macron, Barack Obama", "Angela Merkel, Emmanuel Macron, Barack Obama"),
        ("https://example.org/a/long/path/to/a/page.html", "https://example.org/a/long/path/to/a/page.html"),
        ("Hotel Berlin", "Hotel Berlin"),
        ("EU", "Europäische Union"),
        ("Ha ha ha ha ha ha ha ha ha ha ha ha!", "Ha ha ha ha ha ha ha ha ha ha ha ha!"),
        ("<b>Open</b> the door &amp; wait.", "<b>Öffne</b> die Tür &amp; warte."),
        ("*** ### === *** ### ===", "*** ### === *** ### ==="),
    ],
)
def test_what_looks_like_a_fault_and_is_a_translation(source: str, good: str) -> None:
    assert check(source, good) == (good, "")


def test_between_variants_of_a_language_lines_may_stay_equal() -> None:
    checked = AnswerRules(CleaningConfig(), LanguagePair("zh", "zh-Hant")).check(TRANSLATIONS["zh"], TRANSLATIONS["zh"])
    assert [answer.reason for answer in checked] == ["", "", ""]


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize("loop", ["(note ", " \n", '"a" ', "translation "])
def test_a_loop_of_100000_characters_is_found_at_once(loop: str) -> None:
    """The time must not grow with the square of the length."""
    assert check(SOURCES[0], f"Die{100_000 // len(loop) * loop}x")[1]


def test_an_answer_is_one_line() -> None:
    assert check("Salt and pepper & more.", "Salz und Pfeffer &amp; mehr.") == ("Salz und Pfeffer & mehr.", "")
    assert check(SOURCES[0], "Eins\r\nzwei\tdrei") == ("Eins zwei drei", "several lines")
    assert check("", "") == ("", "")


def test_few_answers_are_checked_without_pytorch() -> None:
    script = (
        "import sys; from nmt.teachers.answers import *;"
        "rules = AnswerRules(CleaningConfig(), LanguagePair('en', 'de'));"
        "rules.check(['A cat.'] * 600, ['Eine Katze.'] * 600); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_settings_that_need_more_than_one_answer_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "teacher.yaml"
    path.write_text(
        "endpoint: http://127.0.0.1:1/v1\nmodel: m\nsource_language: en\ntarget_language: de\nclean: {score: -5}\n"
    )
    with pytest.raises(NmtError, match=r"clean\.score: needs more than the text of one answer: delete it"):
        load(path)


def test_loops_are_found_and_what_the_source_repeats_too_is_not() -> None:
    rules = AnswerRules(CleaningConfig(), LanguagePair("en", "sw"))
    source = "The children are playing in the garden."
    loops = ["Watoto watoto watoto wanacheza.", "Watoto wanacheza bustanini. Watoto wanacheza bustanini."]
    loops.append("Watoto wanacheza bustanini / Watoto wanacheza bustanini")
    assert [answer.reason for answer in rules.check([source] * 3, loops)] == ["repetition"] * 3
    good = ["Hapana, hapana, hapana!", "Watoto wanacheza, watoto wanaimba."]
    sources = ["No, no, no!", "The children play, the children sing."]
    assert [answer.reason for answer in rules.check(sources, good)] == ["", ""]


def test_a_sentence_about_the_translation_is_taken_off() -> None:
    rules = AnswerRules(CleaningConfig(), LanguagePair("en", "sw"))
    source, good = "The children are playing in the garden.", "Watoto wanacheza bustanini."
    for sentence in ("Hakika! Hii hapa tafsiri: ", "Tafsiri ya sentensi hii ni: ", "Bu cümlenin çevirisi şöyledir: "):
        assert rules.check([source], [sentence + good])[0].text == good
    [kept] = rules.check(["The translation is missing."], ["Kinachokosekana: tafsiri."])
    assert kept.text == "Kinachokosekana: tafsiri."
