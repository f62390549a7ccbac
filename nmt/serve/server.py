"""Runs the service: socket, signals and shutdown."""

import ipaddress
import logging
import os
import signal
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from nmt.config.language_pairs import LanguagePairs
from nmt.distributed.stopping import log_from_handler
from nmt.errors import NmtError
from nmt.serve import app
from nmt.serve.batching import RequestQueue
from nmt.serve.requests import RequestLimits

log = logging.getLogger("nmt")
_text_log = logging.getLogger("nmt.texts")

_SHUTDOWN = 30  # maximum seconds for the last requests
_HEADERS = 16 * 1024  # maximum bytes of the headers, without the query


def serve(
    queue: RequestQueue,
    languages: LanguagePairs,
    host: str,
    port: int,
    limits: RequestLimits,
    log_requests: bool,
    hosts: list[str],
) -> None:
    """Answer requests until SIGTERM or Ctrl-C. Requests that were received before are still answered, unless Ctrl-C is
    pressed again.

    port: 0 for any free port, which is logged. hosts: as from `hosts.allowed_hosts`. Raises NmtError if it cannot
    listen on this host and port, and KeyboardInterrupt after Ctrl-C.
    """
    listening = _listen(host, port)
    address, bound_port, *_ = listening.getsockname()
    url = f"http://{f'[{address}]' if ':' in address else address}:{bound_port}"
    if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        log.warning("%s: other machines can use it without a password: leave out --host to allow only this one", url)
    _text_log.disabled = True  # texts of clients are not logged
    try:
        service = app.build(queue, languages, limits, url, log_requests, hosts)
        # uvicorn handles signals while it runs, and afterwards raises them again for the previous handlers.
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            Server(settings(service, limits)).run(sockets=[listening])
        finally:
            signal.signal(signal.SIGTERM, before)
    finally:
        _text_log.disabled = False
        queue.close()
        listening.close()


def settings(service: FastAPI, limits: RequestLimits, shutdown: int = _SHUTDOWN) -> uvicorn.Config:
    """The server's settings. A query may be as long as a body, and requests are not logged. shutdown: maximum seconds
    for the last requests."""
    return uvicorn.Config(
        service,
        http="h11",  # the only implementation with a limit for the headers
        h11_max_incomplete_event_size=limits.body + _HEADERS,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=shutdown,
    )


class Server(uvicorn.Server):
    """The server of an application that `app.build` made."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the current requests, except those for documents."""
        self.config.app.state.service.stop()  # type: ignore[union-attr]
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handles the signals that end the service. A second Ctrl-C cancels the remaining requests, without uvicorn's
        traceback for each of them."""
        super().handle_exit(sig, frame)
        if self.force_exit:
            logging.getLogger("uvicorn.error").disabled = True
            log_from_handler("stopped immediately: current requests are not answered", logging.WARNING)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except (socket.gaierror, UnicodeError, ValueError):  # the last two: a name with an empty or too long part
        raise NmtError(f"--host {host}: no such host: give a host name or an IP address of this machine") from None
    except OverflowError:
        raise NmtError(f"--port {port}: choose one from 0 to 65535") from None
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise NmtError(
            f"--host {host} --port {port}: cannot listen there: {why}: choose others, or --port 0 for any free port"
        ) from None
