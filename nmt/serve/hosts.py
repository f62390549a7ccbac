"""Checks the `Host` and `Origin` headers, so that other web sites cannot use the service through a visitor's browser.

A web site can point its own name to 127.0.0.1 (DNS rebinding). For the browser its pages then have the same origin as
the service, so they could send requests and read the answers; but `Host` is still the name of that site. A page of any
site can also send a form to any address, without reading the answer; the browser sends its site as `Origin`.
Source: RFC 9110, sections 7.2 (Host) and 15.5.20 (status 421); RFC 6454, section 7 (Origin).
"""

import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.errors import NmtError

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::[0-9]*)?", re.IGNORECASE)  # name:port, [::1]:port
_CLOSE = {"Connection": "close"}  # instead of waiting for the body


class AllowedHosts:
    """The names of the service: `localhost`, loopback addresses, and those in `names`.

    any_address: other machines can reach it, so any IP address is allowed too; a web site cannot use the address of
    another machine as its own.
    """

    def __init__(self, names: Sequence[str] = (), any_address: bool = False):
        self.names = {"localhost", *map(_plain, names)}
        self.any_address = any_address

    def allows_host(self, host: str) -> bool:
        """Whether a `Host` header names this service. The port may differ, as behind a proxy."""
        name = _host(host)
        return name is not None and (self._is_own(name) or (self.any_address and _address(name) is not None))

    def allows_origin(self, origin: str, host: str | None) -> bool:
        """Whether a sender with this `Origin` may send requests: a page of this service, or not a web page at all.

        Browser extensions and desktop programs have their own URL schemes. `null` is a page that hides its origin.
        """
        if origin == "null":
            return False
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https"):
            return True
        name = _host(parts.netloc)
        return name is not None and (self._is_own(name) or (host is not None and name == _host(host)))

    def _is_own(self, name: str) -> bool:
        address = _address(name)
        return name in self.names or (address is not None and address.is_loopback)


class HostCheck:
    """ASGI middleware that refuses requests to other names and from other sites, and forbids content sniffing."""

    def __init__(self, app: ASGIApp, hosts: AllowedHosts):
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Content-Type-Options"] = "nosniff"
            await send(message)

        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, with_header)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        hosts = headers.getlist("host")  # browsers always send it; HTTP/1.0 clients, such as simple probes, may not
        for host in hosts:
            if not self.hosts.allows_host(host):
                why = f"Host {_shown(host)}: not a name of this service: to allow it, start with --allowed-host NAME"
                return JSONResponse({"error": why}, 421, _CLOSE)
        origins = headers.getlist("origin")
        if not origins and _is_part_of_another_page(headers):
            return JSONResponse({"error": "pages of other sites may not use this service"}, 403, _CLOSE)
        for origin in origins:
            if not self.hosts.allows_origin(origin, hosts[0] if hosts else None):
                why = f"Origin {_shown(origin)}: pages of other sites may not use this service"
                return JSONResponse({"error": why}, 403, _CLOSE)
        return None


def _is_part_of_another_page(headers: Headers) -> bool:
    """Whether a page of another site loads this as a picture, a script or a frame. Browsers send no `Origin` with that,
    but these (W3C, Fetch Metadata Request Headers); a link that was clicked is a document."""
    return headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-dest") != "document"


def check_names(names: Sequence[str]) -> None:
    """Raises NmtError if one is neither a host name nor an IP address; a URL, for example."""
    for name in names:
        if _address(name) is None and not re.fullmatch(r"[\w.-]+", name):
            raise NmtError(f"--allowed-host {name}: give only a host name, such as translate.example.org")


def _host(authority: str) -> str | None:
    """The host of `host:port`; None if the text is not of this form."""
    found = _AUTHORITY.fullmatch(authority)
    return _plain(found[1]) if found else None


def _plain(host: str) -> str:
    """In lower case, without the brackets of an IPv6 address and the dot at the end of a domain name."""
    return host.strip("[]").lower().removesuffix(".")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _shown(header: str) -> str:
    return header if len(header) <= 100 else f"{header[:100]}…"
