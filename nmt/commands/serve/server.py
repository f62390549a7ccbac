"""The process of a service: its socket, its signals, its end."""

import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from nmt.commands.serve import app
from nmt.commands.serve.batching import BatchingQueue
from nmt.commands.serve.hosts import Hosts
from nmt.commands.serve.requests import Languages, Limits
from nmt.decoding.model_loader import load_settings
from nmt.decoding.translator import Translator
from nmt.errors import NmtError

log = logging.getLogger("nmt")

_SECONDS_TO_STOP = 30  # in which requests that are under way are answered


def serve(
    translator: Translator,
    languages: Languages,
    host: str,
    port: int,
    limits: Limits,
    log_requests: bool = False,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Answer requests until SIGTERM, after which those under way are still answered, or Ctrl-C, likewise.

    Port 0 is a free one; the line on standard error says which. allowed_hosts: names by which it may be called beside
    `host`. Raises NmtError where host and port cannot be listened on, and KeyboardInterrupt after Ctrl-C.
    """
    listening = _listen(host, port)
    address, bound, *_ = listening.getsockname()
    url = f"http://{f'[{address}]' if ':' in address else address}:{bound}"
    public = not ipaddress.ip_address(address.partition("%")[0]).is_loopback
    if public:
        log.warning("%s: others can reach it, and there are no passwords: leave out --host for this machine alone", url)
    hosts = Hosts([host, *allowed_hosts], any_address=public)
    queue = BatchingQueue(translator, limits.waiting, limits.answer)
    try:
        service = app.build(queue, languages, limits, lambda: log.info("listening on %s", url), log_requests, hosts)
        # uvicorn takes the signals while it runs, and sends them again to whoever had them before.
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            settings = uvicorn.Config(
                service,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_SECONDS_TO_STOP,
            )
            uvicorn.Server(settings).run(sockets=[listening])
        finally:
            signal.signal(signal.SIGTERM, before)
    finally:
        queue.close()
        listening.close()


def languages_of(model: Path) -> Languages:
    """The languages of what Translator.load opens. Raises NmtError as loading it does."""
    data = load_settings(model).data
    return Languages(data.source_language, data.target_language)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except (socket.gaierror, UnicodeError, ValueError):  # the latter of a name with a part that is empty, or too long
        raise NmtError(f"--host {host}: no such host: give a name or an address of this machine") from None
    except OverflowError:
        raise NmtError(f"--port {port}: choose one from 0 to 65535") from None
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise NmtError(
            f"--host {host} --port {port}: cannot listen there: {why}: choose others, or --port 0 for any"
        ) from None
