"""One HTML file that needs nothing else: no network, no other file, no library."""

import base64
import hashlib
import html
import json
from importlib import resources
from typing import Any


def html_page(package: str, title: str, data: Any) -> str:
    """A package's `page.html` with its `page.css`, `page.js` and data inside.

    data: what JSON can hold, in `<script id="data">`. Title and data become ASCII: a folder's name may hold what UTF-8
    cannot. The page's policy lets it run this script and use this style alone, and ask nobody for anything.
    """
    folder = resources.files(package)
    markup, style, script = (
        folder.joinpath(f"page.{suffix}").read_text(encoding="utf-8") for suffix in ("html", "css", "js")
    )
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(title).encode("ascii", "xmlcharrefreplace").decode(),
        "style": style,
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "script": script,
    }
    # Split before anything is put in: what is put in may hold braces.
    pieces = [markup]
    for name in parts:
        before, after = pieces.pop().split(f"{{{name}}}")
        pieces += [before, parts[name], after]
    return "".join(pieces)


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
