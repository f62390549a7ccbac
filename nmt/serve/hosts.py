"""Who may send requests, so that other web sites cannot use the service through a visitor's browser.

A web site can point its own name to 127.0.0.1 (DNS rebinding). For the browser its pages then have the same origin as
the service, but `Host` is still the name of that site: Starlette's TrustedHostMiddleware refuses it. A page of any site
can also send a form to any address, without reading the answer; the browser sends its site as `Origin`.
"""

import re
from collections.abc import Sequence

from fastapi import HTTPException, Request

from nmt.errors import NmtError

_NAME = re.compile(r"[\w.-]+|[0-9a-f:.]+|\[[0-9a-f:.]+\]", re.IGNORECASE)  # a host name or an IP address
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ALL_ADDRESSES = ("0.0.0.0", "::")


def allowed_hosts(host: str, names: Sequence[str]) -> list[str]:
    """The names that the service is called by, as TrustedHostMiddleware takes them: all names where it listens on all
    addresses and no name is given. Raises NmtError for a name that is neither a host name nor an IP address."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise NmtError(f"--allowed-host {name}: give only a host name, such as translate.example.org")
    if host in _ALL_ADDRESSES and not names:
        return ["*"]
    return [*_LOOPBACK, *(f"[{name}]" if ":" in name and name[0] != "[" else name.lower() for name in (host, *names))]


class SameSite:
    """A dependency of all paths: raises HTTPException for a request that a page of another site has sent."""

    def __init__(self, hosts: Sequence[str]):
        self._hosts = {*_LOOPBACK, *hosts}

    def __call__(self, request: Request) -> None:
        if self._is_other_site(request):
            raise HTTPException(403, "pages of other sites may not use this service", {"Connection": "close"})

    def _is_other_site(self, request: Request) -> bool:
        headers = request.headers
        origin = headers.get("origin")
        if origin is None:
            # A picture, a script or a frame of another page, for which browsers send no `Origin`; a link that was
            # clicked is a document (W3C, Fetch Metadata Request Headers).
            return headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-dest") != "document"
        scheme, _, authority = origin.lower().partition("://")
        if scheme not in ("http", "https"):
            return origin == "null"  # a page that hides its origin; browser extensions have their own schemes
        return authority != headers.get("host", "").lower() and re.sub(r":\d+$", "", authority) not in self._hosts
