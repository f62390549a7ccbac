"""One HTML file that needs nothing else: no network, no other file, no library."""

import base64
import hashlib
import html
import json
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any


def html_page(package: str, title: str, data: Any, connects: str = "'none'") -> str:
    """A page around a package's `page.html`, with `html_page.css`, its `page.css`, `html_page.js`, its scripts and data
    inside. Of its scripts, `page.js` comes last and begins the work.

    data: JSON values, in `<script id="data">`. Title and data become ASCII: a folder's name may not be UTF-8. connects:
    where the script may send requests to, in the words of a Content-Security-Policy.
    """
    folder = resources.files(package)
    of_every_page = resources.files("nmt.pages")
    scripts = [path for path in folder.iterdir() if path.name.endswith(".js")]
    scripts.sort(key=lambda path: (path.name == "page.js", path.name))
    main = folder.joinpath("page.html").read_text("utf-8")
    style = _joined(of_every_page.joinpath("html_page.css"), folder.joinpath("page.css"))
    script = _joined(of_every_page.joinpath("html_page.js"), *scripts)
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
    """A Content-Security-Policy with which a page can use this script and this style, load nothing, and send requests
    only to `connects`."""
    digests = (base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in (script, style))
    script_source, style_source = (f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {script_source}; style-src {style_source}; connect-src {connects}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
