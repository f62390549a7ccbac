"""Tests `nmt serve` under load: whether all answers are right, and how fast they are.

    python scripts/load_test.py MODEL TEXT [--clients 200] [--seconds 60] [--url http://127.0.0.1:8000]

First each line of TEXT is translated separately. Then `nmt serve MODEL` is started, or the service at --url is used.
Each client sends lines over its own connection: the next line after each answer, or, if the status is 429, after the
seconds in the answer. Prints a summary. The exit status is 1 if an answer had a status other than 200 and 429, if a
translation differed from the separate one, or if there was no translation to compare.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import nmt


@dataclass
class Observations:
    """The answers to all clients."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)  # latency of answers with status 200
    different: list[str] = field(default_factory=list)  # lines whose translation differed


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> tuple[int, dict[str, str], str]:
    """Send one line. Returns the status, the headers and the body of the answer."""
    body = json.dumps({"text": line}).encode()
    writer.write(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    headers = {name.lower(): value for name, value in re.findall(r"^([^:\r\n]+): *(.*)\r$", head, re.MULTILINE)}
    answer = await reader.readexactly(int(headers["content-length"]))
    return int(head.split(" ")[1]), headers, answer.decode()


async def client(
    address: tuple[str, int], expected: dict[str, str], until: float, seed: int, observations: Observations
) -> None:
    draws, lines = random.Random(seed), list(expected)
    reader, writer = await asyncio.open_connection(*address)
    while time.perf_counter() < until:
        line, started = draws.choice(lines), time.perf_counter()
        try:
            status, headers, answer = await ask(reader, writer, line)
        except (OSError, EOFError) as error:
            observations.statuses[type(error).__name__] += 1
            reader, writer = await asyncio.open_connection(*address)
            continue
        observations.statuses[str(status)] += 1
        if status == 429:
            await asyncio.sleep(float(headers["retry-after"]))
        elif status == 200:
            observations.seconds.append(time.perf_counter() - started)
            if json.loads(answer)["translations"][0][0]["text"] != expected[line]:
                observations.different.append(line)
    writer.close()


async def load(address: tuple[str, int], expected: dict[str, str], clients: int, seconds: float) -> Observations:
    observations, until = Observations(), time.perf_counter() + seconds
    await asyncio.gather(*(client(address, expected, until, seed, observations) for seed in range(clients)))
    return observations


def report(observations: Observations, seconds: float) -> int:
    """Print a summary, and return the exit status."""
    lines = len(set(observations.different))
    print(f"statuses: {dict(observations.statuses)}; {observations.statuses['200'] / seconds:.0f} answers per second")
    if len(observations.seconds) > 1:
        cuts = statistics.quantiles(observations.seconds, n=100, method="inclusive")
        print(f"latency: p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s, longest {max(observations.seconds):.3f} s")
    compared, different = len(observations.seconds), len(observations.different)
    print(f"translations compared: {compared}; different: {different}, of {lines} lines")
    if not observations.seconds:
        print("no translation was compared, so this test shows nothing")
    failed = not compared or different or observations.statuses.keys() - {"200", "429"}
    return int(bool(failed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--url", help="use this running service instead of starting one")
    parser.add_argument("--serve", default="", help="arguments for `nmt serve`")
    arguments = parser.parse_args()
    lines = [line for line in arguments.text.read_text(encoding="utf-8").split("\n") if line.strip()]
    if not lines:
        parser.error(f"{arguments.text}: no line to translate")
    translator = nmt.load(arguments.model, device="cpu")
    expected = {line: translator.translate([line])[0] for line in lines}
    del translator
    service, url = None, arguments.url
    if url is None:
        command = [sys.executable, "-m", "nmt", "serve", arguments.model, "--port", "0", *arguments.serve.split()]
        service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert service.stderr
        url = next((line.split()[-1] for line in service.stderr if line.startswith("listening on")), None)
        if url is None:
            parser.error(f"{arguments.model}: nmt serve did not start")
    address = urlsplit(url)
    observations = asyncio.run(
        load((address.hostname or "", address.port or 80), expected, arguments.clients, arguments.seconds)
    )
    status = report(observations, arguments.seconds)
    if service:
        service.terminate()
        print(f"service: {service.communicate()[1].strip()}; status {service.returncode}")
        status = status or service.returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
