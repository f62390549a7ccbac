"""An inspection as one HTML file that needs nothing else: no network, no other file, no library."""

import base64
import hashlib
import html
import json
from importlib import resources

from nmt.inspection import text
from nmt.inspection.inspecting import Inspection


def page(seen: Inspection) -> str:
    """The page, with its style, its script and its data inside.

    Its policy lets it run this script and use this style alone, and ask nobody for anything.
    """
    folder = resources.files("nmt.inspection")
    markup, style, script = (
        folder.joinpath(f"page.{suffix}").read_text(encoding="utf-8") for suffix in ("html", "css", "js")
    )
    data = text.to_data(seen, digits=4, position_digits=2)  # enough to look at
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(f"{seen.source.text} – nmt"),
        "style": style,
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
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
