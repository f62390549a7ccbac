"""Documents of each format, and what reads and translates them without a model. All text is made up."""

import re
from pathlib import Path

from nmt.documents.document import Document, TranslatableText
from nmt.documents.file_formats import format_of

SRT = """1
00:00:01,000 --> 00:00:02,000 X1:40
<i>the old boat and</i>

2
00:00:02,100 --> 00:00:03,000
{\\an8}its crew were waiting
for the tide.

00:00:04,000 --> 00:00:05,000
- who is it?
- <b>me</b> again.
"""
VTT = """WEBVTT

NOTE no text

STYLE
::cue { color: red }

id
00:01.000 --> 00:02.000 line:0
<v Ann>salt &amp; pepper
"""
PO = r"""# a comment
msgid ""
msgstr "Language: lv\nPlural-Forms: nplurals=3; plural=(n==0 ? 0 : n==1 ? 1 : 2);\n"

#: a.c:1
#, c-format
msgctxt "menu"
msgid "%d boat"
msgid_plural "%d boats"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#, fuzzy
#| msgid "old"
msgid "done"
msgstr "KEPT"

msgid ""
"a <b>red</b> \"sail\"\n"
"for {name}\n"
msgstr ""

#~ msgid "gone"
#~ msgstr ""
"""
XLIFF = """<?xml version='1.0' encoding="utf-8"?>
<!-- <source>no</source> -->
<xliff version="1.2"><file source-language='en'><body>
\t<trans-unit id="1">
\t\t<source>a <g id='1' x=">">red</g> sail <ph id="2">&lt;br&gt;</ph> &amp; é</source>
\t</trans-unit>
\t<trans-unit id="2">
<source>two &lt; 3</source><target state="new"/><alt-trans><target>no</target></alt-trans></trans-unit>
\t<trans-unit id="3"><source>done</source><target>KEPT</target></trans-unit>
\t<trans-unit id="4" translate="no"><source>no</source></trans-unit>
</body></file></xliff>
"""
XLIFF_2 = '<xliff version="2.0"><file id="f"><unit id="1"><segment><source>one</source></segment></unit></file></xliff>'
ARB = r"""{ "@@locale": "en",
  "a": "caf\u2026 of {name}", "@a": {"description": "no", "n": 1.50},
  "b": ["{n, plural, =0 {none} other {# boats for {who}}}", "", true] }"""
HTML = "<!doctype html>\n<p class=x>two <b>boats</b>&nbsp;wait<br>here</p>"
DOCUMENTS = {"a.srt": SRT, "a.vtt": VTT, "a.po": PO, "a.xliff": XLIFF, "b.xlf": XLIFF_2, "a.arb": ARB, "a.html": HTML}


def read(name: str, content: str, **options: bool) -> Document:
    path = Path(name)
    format = format_of(path)
    assert format is not None
    return format.read(content, path, target_language="lv", **options)


def upper(text: TranslatableText) -> str:
    """In capitals, but for tags, references and placeholders."""
    parts = re.split(r"(<[^<>]*>|&\w+;|%d|\{\w+\})", text.text)
    return "".join(part if i % 2 else part.upper() for i, part in enumerate(parts))
