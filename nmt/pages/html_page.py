"""Writes self-contained HTML files: no network, no other file and no library is needed."""

import base64
import hashlib
import html
import json
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any


def html_page(package: str, title: str, data: Any, connects: str = "'none'") -> str:
    """An HTML page with the `page.html`, `page.css` and scripts of a package, the shared style and script, and data.

    `page.js` is the last script and runs the page. data: JSON values, in `<script id="data">`. Title and data become
    ASCII, because the name of a folder may not be UTF-8. connects: where the script may send requests to, as in a
    Content-Security-Policy.
    """
    folder = resources.files(package)
    shared = resources.files("nmt.pages")
    scripts = [path for path in folder.iterdir() if path.name.endswith(".js")]
    scripts.sort(key=lambda path: (path.name == "page.js", path.name))
    main = folder.joinpath("page.html").read_text("utf-8")
    style = _joined(shared.joinpath("html_page.css"), folder.joinpath("page.css"))
    script = _joined(shared.joinpath("html_page.js"), *scripts)
    ascii_title = html.escape(title).encode("ascii", "xmlcharrefreplace").decode()
    json_data = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")  # no end tag in it
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{content_policy(script, style, connects)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{ascii_title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
{main}<script type="application/json" id="data">{json_data}</script>
<script>{script}</script>
</body>
</html>
"""


def _joined(*files: Traversable) -> str:
    return "".join(file.read_text("utf-8") for file in files)


def content_policy(script: str, style: str, connects: str = "'none'") -> str:
    """A Content-Security-Policy that allows this script and this style, no loading, and requests only to `connects`."""
    digests = (base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in (script, style))
    script_source, style_source = (f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {script_source}; style-src {style_source}; connect-src {connects}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
