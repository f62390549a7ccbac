"""Which addresses and web sites a service answers: its own, not those that a browser was led to it by.

A web site can point its own name at 127.0.0.1 (DNS rebinding), and its pages then count as of the same origin as the
service: they could ask it anything and read the answers. The browser still sends that name as `Host`. And a page of any
site can send a form to any address, whose answer it cannot read: the browser sends that site as `Origin`.
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
_HANG_UP = {"Connection": "close"}  # rather than wait for the body
_NAME = re.compile(r"[\w.-]+")


class Hosts:
    """The hosts that a service may be called by: `localhost`, loopback addresses, and the names given.

    Where others can reach it, any IP address too: no site can have pages under an address that is not its own.
    """

    def __init__(self, names: Sequence[str] = (), any_address: bool = False):
        self.names = {"localhost", *map(_plain, names)}
        self.any_address = any_address

    def answer_to(self, host: str) -> bool:
        """Whether a `Host` header names this service. The port does not matter: a proxy may have another."""
        name = _host(host)
        if name is None:
            return False
        return self._is_own(name) or (self.any_address and _address(name) is not None)

    def takes_from(self, origin: str, host: str | None) -> bool:
        """Whether a page with this `Origin` may send requests: one of this service, or what is no web page.

        Extensions of browsers and desktop programs have schemes of their own; a page without any origin has `null`.
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


class OwnHostsOnly:
    """Refuses requests by other names and from pages of other sites, and lets browsers guess no content's type."""

    def __init__(self, app: ASGIApp, hosts: Hosts):
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Content-Type-Options"] = "nosniff"
            await send(message)

        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif refusal := self._refusal(Headers(scope=scope)):
            await refusal(scope, receive, with_header)
        else:
            await self.app(scope, receive, with_header)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        given = headers.getlist("host")  # no browser leaves it out: without it HTTP/1.0 asks, as simple probes do
        for host in given:
            if not self.hosts.answer_to(host):
                why = f"Host {_shown(host)}: not a name of this service: start it with --allowed-host NAME"
                return JSONResponse({"error": why}, 421, _HANG_UP)
        for origin in headers.getlist("origin"):
            if not self.hosts.takes_from(origin, given[0] if given else None):
                why = f"Origin {_shown(origin)}: pages of other sites may not ask this service"
                return JSONResponse({"error": why}, 403, _HANG_UP)
        return None


def check_names(names: Sequence[str]) -> None:
    """Raise NmtError for what is neither a name nor an address, such as a URL."""
    for name in names:
        if _address(name) is None and not _NAME.fullmatch(name):
            raise NmtError(f"--allowed-host {name}: give a name alone, such as translate.example.org")


def _host(authority: str) -> str | None:
    """The host of `host:port`, without the port; None where it is no such thing."""
    found = _AUTHORITY.fullmatch(authority)
    return _plain(found[1]) if found else None


def _plain(host: str) -> str:
    """Without the brackets of an IPv6 address, the dot of a full domain name and capitals."""
    return host.strip("[]").lower().removesuffix(".")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _shown(header: str) -> str:
    return header if len(header) <= 100 else f"{header[:100]}…"
