"""Strings of tables: placeholders, tags, arguments of printf and ICU messages survive. All text here is made up."""

import json
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import pytest
from helpers.model_files import make_checkpoint
from hypothesis import given
from hypothesis import strategies as st

from nmt.checkpoints import model_file
from nmt.commands.translate import translate
from nmt.commands.translation_job import TranslationJob
from nmt.config.schema import Config
from nmt.decoding.protected_text import is_protected, protected_spans
from nmt.documents.document import Document, NotTranslatable, Template, TranslatableText
from nmt.documents.formats import gettext, json_strings, xliff
from nmt.documents.placeholders.messages import PLACEHOLDERS, Message, message_template


def items(text: str) -> list[str]:
    return [text[slice(*span)] for span in protected_spans(text, PLACEHOLDERS)]


def with_texts(template: Message | Template, texts: Sequence[str]) -> str | None:
    """None if the string is left as it is."""
    try:
        return template.with_texts(texts)
    except NotTranslatable:
        return None


def translated(document: Document, texts: dict[str, str]) -> str:
    return document.translated(lambda text: texts.get(text.text, text.text))


@pytest.mark.parametrize(
    "item",
    [
        *("{name}", "{0:N2}", "{n, number}", "{ $name }", "{{ x }}", "{{a | b:'c'}}", "{{'{'}}", "{{{raw}}}", "${x.y}"),
        *("{{ $t('k', {n: 1}) }}", "{{ 'x' | translate:{a: {b: 1}} }}", "${ f({a: 1}) }", "%1%", "%|1$|", "%0:s", "%Y"),
        *("{% if x %}", "#{x}", "%{name}", "%<a>.2f", "%<PRIu64>", "$t(a.b)", "%s", "%(n)d", "%1$s", "%-5.2f", "%.*f"),
        *("%*d", "%n", "%@", "%lld", "%dpx", "100%%", "%#@files@", "%1", "%L2", "%name%", "%title", ":name", "@count"),
        *("%v", "%+v", "%q", "%T", "%[2]d", "%,d", "%b", "%tY", "%m", "%a", "%zu", "%jd", "%08b", "%'*10s", "<%= x %>"),
        *("!x", "$1", "$NAME", "$NAME$", "[_1]", "__name__", "##NAME##", "@:a.b", "@.lower:a", "<0/>", "</0>", "'{'"),
    ],
)  # fmt: skip
def test_placeholders_are_kept(item: str) -> None:
    for line in (f"one {item} two", f"one ({item}).", f"一{item}二"):
        assert items(line) == [item]
    assert is_protected(f"one {item} two", f"{item} eins", PLACEHOLDERS) and not is_protected(
        f"one {item} two", "eins", PLACEHOLDERS
    )


IMAGE = "a <img alt='The child {n}' src=x>"


@pytest.mark.parametrize(
    ("text", "translation", "kept"),
    [
        *(("a", f"b {invented}", False) for invented in ("%s", "%d", "{}", "{0}", "%(n)s", "%2$s", "%%")),
        *(("a {0}", f"b {{0}} {invented}", False) for invented in ("$1", "%1")),
        ("five dollars or five percent", "$5 %5", True),
        ("५% of {0}", "{0} %5", True),
        ("a {0} of %s", "b {0} %s {1}", False),
        ("a 1 {0}", "b {0} {1}", False),
        ("100 % or 50%", "%100 %50eko", True),
        ("5 dollars, 20 percent", "$5 20 %", True),
        ("half", "%50", True),
        ("a", "100 % des b", True),
        ("100 %<b>a</b>", "<b>b</b> 100 %", True),
        (IMAGE, "b <img alt='L’enfant {n}' src=x>", True),
        ("<a href=x title=one>b</a>", '<a href=x title="zwei drei">c</a>', True),
        (IMAGE, "b <img alt='L’enfant' src=x>", False),
        (IMAGE, "b <img alt='L’enfant {n}' src=y>", False),
    ],
)
def test_what_is_kept_in_a_translation(text: str, translation: str, kept: bool) -> None:
    assert TranslatableText(text, "html" if "<" in text else None).is_protected(translation, PLACEHOLDERS) == kept


def test_prose_is_no_placeholder() -> None:
    for line in (
        "half of 50% discount at #1, he said {",
        "100%free, a 50 %-iger Rabatt",
        "100 % des, 50% a, 5 %a, 20 %v, 9 %Y, 9\u202f%v, 9\u00a0%a. [sic]",
        "at 10:30: $5.50, $20; so!",
        "hm: a",
    ):
        assert not items(line)
    assert items("%s%s %dx%d %d%%.") == ["%s", "%s", "%dx", "%d", "%d", "%%"]


@pytest.mark.parametrize(
    ("string", "numbered", "new", "expected"),
    [
        ("With %s, %d men", "With %1$s, %2$d men", "%2$d a %1$s", "%2$d a %1$s"),
        ("%s of %s, 100%%", "%1$s of %2$s, 100%%", "%1$s a %2$s 100%%", "%s a %s 100%%"),
        ("%dx%d of %.*f", "%1$dx%2$d of %4$.*3$f", "%4$.*3$f a %1$dx%2$d", "%4$.*3$f a %1$dx%2$d"),
        ("%s\nof %d", "%1$s\nof %2$d", "%1$s\na %2$d", "%s\na %d"),
        ("%s and %s", "%1$s and %2$s", "%1$s a %1$s", None),  # no translation
        ("%sfiles of %s", "%1$sfiles of %2$s", "%2$s a %1$sfiles", "%2$s a %1$sfiles"),
        ("%site of %count", "%site of %count", "%count a %site", "%count a %site"),  # names
        ("%name%, 5%do %s", "%name%, 5%do %s", "5%do %s", "5%do %s"),
        ("%2$s of %1$d", "%2$s of %1$d", "%1$d a %2$s", "%1$d a %2$s"),
        ("%(a)s of %(b)d", "%(a)s of %(b)d", "%(b)d a %(a)s", "%(b)d a %(a)s"),
        ("%<PRIu64> of %s", "%1$<PRIu64> of %2$s", "%2$s a %1$<PRIu64>", "%2$s a %1$<PRIu64>"),
        ("%'*10s of %d", "%1$'*10s of %2$d", "%2$d a %1$'*10s", "%2$d a %1$'*10s"),
        ("%v of %q", "%1$v of %2$q", "%1$v a %2$q", "%v a %q"),
        ("%v of %q", "%1$v of %2$q", "%2$q a %1$v", None),  # Go has no such numbers
        *((f"%s of %{verb}", f"%1$s of %2${verb}", f"%2${verb} a %1$s", None) for verb in "vqTwaAbBH"),
        ("{} of {:d}", "{0} of {1:d}", "{0} a {1:d}", "{} a {:d}"),
        ("{} of {:d}", "{0} of {1:d}", "{1:d} a {0}", None),  # nobody knows whether the program has numbers
        ("{0} of {1}", "{0} of {1}", "{1} a {0}", "{1} a {0}"),
        ("%s buys %d%%(%s) x", "%1$s buys %2$d%%(%3$s) x", "%3$s %2$d%% (%1$s)", "%3$s %2$d%% (%1$s)"),
        ("50%%[%s] of %d", "50%%[%1$s] of %2$d", "50%%[%1$s] a %2$d", "50%%[%s] a %d"),
        # Some with numbers or names: the order stays.
        ("%s of %d (%[1]q)", "%2$s of %3$d (%[1]q)", "%2$s a %3$d (%[1]q)", "%s a %d (%[1]q)"),
        ("%s of %d (%[1]q)", "%2$s of %3$d (%[1]q)", "%3$d a %2$s (%[1]q)", None),
        ("%s of %d (%[1]q)", "%2$s of %3$d (%[1]q)", "(%[1]q) %2$s a %3$d", None),
        ("%s of %d, %1$s", "%2$s of %3$d, %1$s", "%2$s a %3$d %1$s", "%s a %d %1$s"),
        ("%s of %d, %1$s", "%2$s of %3$d, %1$s", "%3$d a %2$s %1$s", None),
        ("%(n)s of %s, %d", "%(n)s of %1$s, %2$d", "%1$s, %2$d a %(n)s", "%s, %d a %(n)s"),
        ("%(n)s of %s, %d", "%(n)s of %1$s, %2$d", "%2$d, %1$s a %(n)s", None),
        ("{} of {}, {0}", "{1} of {2}, {0}", "{1} a {2} {0}", "{} a {} {0}"),
        ("on %B %d, %Y", "on %B %d, %Y", "am %d. %B %Y", "am %d. %B %Y"),  # a date
        ("{} of {}, {0}", "{1} of {2}, {0}", "{2} a {1} {0}", None),
    ],
)
def test_arguments_keep_their_order_or_have_numbers(string: str, numbered: str, new: str, expected: str | None) -> None:
    message = message_template(string)
    assert "\n".join(text.text for text in message.texts) == numbered
    assert with_texts(message, new.split("\n")) == expected
    unit = f"<xliff><trans-unit><source>{escape(string)}</source></trans-unit></xliff>"
    old_new = dict(zip(numbered.split("\n"), new.split("\n"), strict=True))
    end = f"{'</source>' if expected is None else f'>{escape(expected, quote=False)}</target>'}</trans-unit></xliff>"
    assert translated(xliff.read(unit, Path("a.xliff")), old_new).endswith(end)


def test_where_no_program_knows_numbers_nothing_changes() -> None:
    for language, old, numbered, new, written in (
        ("c", "%s, %d men", "%1$s, %2$d men", "%2$d men, %1$s", "%2$d men, %1$s"),
        ("python", "%s, %d men", "%1$s, %2$d men", "%2$d men, %1$s", ""),
        ("c", "{} of {}", "{0} of {1}", "{1} a {0}", ""),
        ("python-brace", "{} of {}", "{0} of {1}", "{1} a {0}", "{1} a {0}"),
        ("python-brace", "{} of {} {0}", "{1} of {2} {0}", "{2} a {1} {0}", ""),
        ("no-python", "%s, %d men", "%1$s, %2$d men", "%2$d men, %1$s", "%2$d men, %1$s"),
        ("no-python-brace", "{} of {}", "{0} of {1}", "{1} a {0}", ""),
        ("c", "{n, plural, one {%s of %s} other {b}}", "%1$s of %2$s", "%2$s a %1$s", ""),  # in each form the same
    ):
        document = gettext.read(f'#, {language}-format\nmsgid "{old}"\nmsgstr ""\n', Path("a.po"))
        assert f'msgstr "{written}"' in translated(document, {numbered: new})


@pytest.mark.parametrize(
    ("string", "texts", "new", "expected"),
    [
        ("{n, plural, one{#st} other{a #}}", ["{#}st", "a {#}"], ["{#}.", "{#} b"], "{n, plural, one{#.} other{# b}}"),
        ("Don''t let {name}", ["Don't let {name}"], ["l'a {name}"], "l''a {name}"),
        ("a ''{0}''", ["a '{0}'"], ["'{0}' b"], "''{0}'' b"),
        ("it''s '{'x'}'", ["it's '{'x'}'"], ["'{'y'}' l'a"], "'{'y'}' l''a"),
        ("don't {x}", ["don't {x}"], ["l'{x}"], "l'{x}"),
        ("''wiki''", ["''wiki''"], ["''b''"], "''b''"),
        ("{n, select, other {of {x}}}", ["of {x}"], ["l'{x} d'"], "{n, select, other {l’{x} d’}}"),
        ("{n, plural, other {'{'#'}' b}}", ["'{'{#}'}' b"], ["c '{'{#}'}'"], "{n, plural, other {c '{'#'}'}}"),
        ("{n, plural, other {'{' #}}", ["'{' {#}"], ["{#} '{'"], "{n, plural, other {# '{'}}"),
        ("l'{n, plural, other {'a}}", ["l'", "'a"], ["b", "c"], "b{n, plural, other {c}}"),
        ("{n, number, #.#} {n, plural, other {#}}", ["{n, number, #.#}", "{#}"], ["a {n, number, #.#}", "{#}"],
         "a {n, number, #.#} {n, plural, other {#}}"),
    ],
)  # fmt: skip
def test_icu_messages(string: str, texts: list[str], new: list[str], expected: str) -> None:
    message = message_template(string)
    assert [text.text for text in message.texts] == texts
    assert message.with_texts(texts) == string and message.with_texts(new) == expected


@pytest.mark.parametrize(
    ("string", "markup", "new", "expected"),
    [
        ("<0>a</0> & b<1/>", "xml", "b <n0>c</n0> &amp; d<n1/>", "b <0>c</0> & d<1/>"),
        ("<b>a</b> &amp; b", "html", "<b>c</b> &amp; d", "<b>c</b> &amp; d"),
        ("a&nbsp;b &lt; c", "html", "d&nbsp;&lt; e", "d&nbsp;&lt; e"),
        ("%<PRIu64> a & b", None, "%<PRIu64> c & d", "%<PRIu64> c & d"),
        ("{n, plural, other {<b>a</b> b}}", "html", "c <b>d</b>", "{n, plural, other {c <b>d</b>}}"),
    ],
)
def test_tags_are_elements(string: str, markup: str | None, new: str, expected: str) -> None:
    message = message_template(string)
    assert [text.markup for text in message.texts] == [markup] and message.with_texts([new]) == expected


def test_what_is_not_well_formed_is_said() -> None:
    message = message_template("{n, plural, one {a")
    assert not message.texts
    with pytest.raises(NotTranslatable, match="is not well formed"):
        message.with_texts([])


def test_icu_forms_and_line_breaks() -> None:
    string = " {n, plural, =0 {none} one {# boat for {who}} other {{n} boats}} left\n now "
    texts = [text.text for text in message_template(string).texts]
    assert texts == ["none", "{#} boat for {who}", "{n} boats", "left", "now"]


@given(st.text("a \n\r\t{}#,plural<>b/1%'&;$sd*"))
def test_templates_lose_nothing(string: str) -> None:
    for template in (message_template(string), Template.from_lines(string)):
        assert with_texts(template, [text.text for text in template.texts]) in (string, None)


def test_what_is_no_text() -> None:
    content = json.dumps({"@metadata": {"authors": ["me"]}, "a": "%s (%d): {x}", "b": "two", "c": "https://a.org/x"})
    document = json_strings.read(content, Path("a.json"))
    assert [text.text for text in document.texts] == ["two"]


def test_a_pattern_of_the_user_takes_no_protection_away(make_config: Callable[..., Config], tmp_path: Path) -> None:
    """By an untrained model, which copies nothing."""
    model, source, output = tmp_path / "model", tmp_path / "a.json", tmp_path / "b.json"
    model_file.save(model, make_checkpoint(make_config("decoding.max_extra_tokens=3")))
    source.write_text('{"a": "one {{ user.name }} two JIRA-1 %s"}')
    keep = 'decoding.keep=["JIRA-[0-9]"]'
    assert translate(TranslationJob(model=model, source=source, output=output, overrides=[keep])) == 0
    old, new = (json.loads(path.read_text())["a"] for path in (source, output))
    assert new != old and is_protected(old, new, ("JIRA-[0-9]", "verbatim"))
