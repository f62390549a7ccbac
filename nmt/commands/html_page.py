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
    cannot. The page's policy allows only this script and this style, and no connections.
    """
    folder = resources.files(package)
    main, style, script = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    policy = (
        f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # No end tag can be in this JSON.
    written = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
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
{main}<script type="application/json" id="data">{written}</script>
<script>{script}</script>
</body>
</html>
"""


def source_hash(source: str) -> str:
    """What a Content-Security-Policy calls a script or a style that may be used: `'sha256-…'`."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
