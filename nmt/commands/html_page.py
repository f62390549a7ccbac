"""One HTML file that needs nothing else: no network, no other file, no library."""

import base64
import hashlib
import html
import json
from importlib import resources
from typing import Any


def html_page(package: str, title: str, data: Any) -> str:
    """A page around a package's `page.html`, with its `page.css`, `page.js` and data inside.

    data: what JSON can hold, in `<script id="data">`. Title and data become ASCII: a folder's name may hold what UTF-8
    cannot. The page's policy lets it run this script and use this style alone, and ask nobody for anything.
    """
    folder = resources.files(package)
    main, style, script = (
        folder.joinpath(f"page.{suffix}").read_text(encoding="utf-8") for suffix in ("html", "css", "js")
    )
    policy = (
        f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    ascii_title = html.escape(title).encode("ascii", "xmlcharrefreplace").decode()
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{ascii_title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{main}<script type="application/json" id="data">{_json(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def source_hash(source: str) -> str:
    """What a Content-Security-Policy calls a script or a style that may be used: `'sha256-…'`."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _json(data: Any) -> str:
    """As JSON that no end tag can be found in."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
