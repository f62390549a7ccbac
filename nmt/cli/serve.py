"""`nmt serve`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.errors import NmtError
from nmt.files.packages import install_command


@terminal.reporting()
def serve(
    model: options.ModelOrEndpoint,
    overrides: options.DecodingOverrides = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on. With 0.0.0.0, other machines can connect.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0: any free port.")
    ] = 8000,
    max_lines: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum lines of a request (otherwise status 413).")
    ] = 256,
    max_characters: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum characters of a request (otherwise status 413).")
    ] = 20_000,
    max_waiting: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum waiting lines (otherwise status 429).")
    ] = 1000,
    max_answer: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Maximum MiB of an answer (status 413 if it could be larger)."),
    ] = 32,
    max_file: Annotated[
        int, typer.Option(metavar="N", min=0, help="Maximum MiB of a file (otherwise status 413); 0: no files.")
    ] = 4,
    document_seconds: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Maximum seconds to read a file, and to write its translation (otherwise status 413).",
        ),
    ] = 60,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another host name of this service, for example behind a proxy; repeatable."),
    ] = None,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="Log a line for each request.")] = False,
    glossary: Annotated[
        Path | None, options.file("Terms with their translations. The file is read again when it changes.")
    ] = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    device: options.Device = "auto",
) -> None:
    """Translate over HTTP: a web page at /, and POST /translate, which also accepts LibreTranslate's requests.

    Example: nmt serve runs/demo, then curl 127.0.0.1:8000/translate --json '{"text": "Three hundred and two."}'
    """
    try:
        from nmt.serve import hosts, queues, requests, server
    except ModuleNotFoundError as error:
        raise NmtError(f"serving needs the package {error.name}: {install_command('serve')}") from None
    sizes = max_answer * 2**20, max_file * 2**20
    limits = requests.RequestLimits(max_lines, max_characters, max_waiting, *sizes, document_seconds)
    allowed_hosts = hosts.allowed_hosts(host, allowed_host or ())
    settings = options.decoding_overrides(overrides, beam_size, length_penalty)
    queue, languages = queues.open_queue(model, device, settings, max_waiting, glossary)
    try:
        server.serve(queue, languages, host, port, limits, log_requests, allowed_hosts)
    except KeyboardInterrupt:  # the service has reported it
        raise typer.Exit(130) from None
