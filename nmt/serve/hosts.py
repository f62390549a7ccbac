"""Checks where requests come from, so that other web sites cannot use the service through a visitor's browser.

A web site can point its own name to 127.0.0.1 (DNS rebinding). The browser then sees its pages as the same origin as
the service. But `Host` is still the name of that site, so Starlette's TrustedHostMiddleware refuses the request. A page
of any site can also send a form to any address, but cannot read the answer. The browser sends its site as `Origin`.
"""

import re
from collections.abc import Sequence

from fastapi import HTTPException, Request

from nmt.errors import NmtError

_NAME = re.compile(r"[\w.-]+|[0-9a-f:.]+|\[[0-9a-f:.]+\]", re.IGNORECASE)  # a host name or an IP address
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ALL_ADDRESSES = ("0.0.0.0", "::")


def allowed_hosts(host: str, names: Sequence[str]) -> list[str]:
    """The allowed host names of the service, in the form of TrustedHostMiddleware. All names are allowed if the service
    listens on all addresses and `names` is empty. Raises NmtError for a name that is not a host name or IP address."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise NmtError(f"--allowed-host {name}: give only a host name, such as translate.example.org")
    if host in _ALL_ADDRESSES and not names:
        return ["*"]
    return [*_LOOPBACK, *(f"[{name}]" if ":" in name and name[0] != "[" else name.lower() for name in (host, *names))]


class SameSite:
    """A FastAPI dependency of all paths. Raises HTTPException for a request from a page of another site."""

    def __init__(self, hosts: Sequence[str]):
        self._hosts = {*_LOOPBACK, *hosts}

    def __call__(self, request: Request) -> None:
        if self._is_other_site(request):
            raise HTTPException(403, "pages of other sites may not use this service", {"Connection": "close"})

    def _is_other_site(self, request: Request) -> bool:
        headers = request.headers
        origin = headers.get("origin")
        if origin is None:
            # Browsers send no `Origin` for a picture, a script or a frame of another page. A clicked link has the
            # destination "document" (W3C, Fetch Metadata Request Headers).
            return headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-dest") != "document"
        scheme, _, authority = origin.lower().partition("://")
        if scheme not in ("http", "https"):
            return origin == "null"  # a page that hides its origin; browser extensions have other schemes
        return authority != headers.get("host", "").lower() and re.sub(r":\d+$", "", authority) not in self._hosts
