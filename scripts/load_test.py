"""Test `nmt serve` under load: whether every answer is right, and how fast answers come.

    python scripts/load_test.py MODEL TEXT [--clients 200] [--seconds 60] [--url http://127.0.0.1:8000]

First each line of TEXT is translated by itself. Then `nmt serve MODEL` is started, or the service at --url is used, and
each client sends lines over its own connection: the next line as soon as it has an answer, or after the seconds that a
429 answer gives. Prints a summary. The exit status is 1 if an answer had a status other than 200 and 429, if a
translation differed from that of the line by itself, or if there was no translation to compare.
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
class Seen:
    """What the clients received."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)  # latency of answers with status 200
    different: list[str] = field(default_factory=list)  # lines whose translation differed


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> tuple[int, dict[str, str], str]:
    """Send one line; returns the status, headers and body of the answer."""
    body = json.dumps({"text": line}).encode()
    writer.write(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    headers = {name.lower(): value for name, value in re.findall(r"^([^:\r\n]+): *(.*)\r$", head, re.MULTILINE)}
    answer = await reader.readexactly(int(headers["content-length"]))
    return int(head.split(" ")[1]), headers, answer.decode()


async def client(address: tuple[str, int], expected: dict[str, str], until: float, seed: int, seen: Seen) -> None:
    drawn, lines = random.Random(seed), list(expected)
    reader, writer = await asyncio.open_connection(*address)
    while time.perf_counter() < until:
        line, started = drawn.choice(lines), time.perf_counter()
        try:
            status, headers, answer = await ask(reader, writer, line)
        except (OSError, EOFError) as error:
            seen.statuses[type(error).__name__] += 1
            reader, writer = await asyncio.open_connection(*address)
            continue
        seen.statuses[str(status)] += 1
        if status == 429:
            await asyncio.sleep(float(headers["retry-after"]))
        elif status == 200:
            seen.seconds.append(time.perf_counter() - started)
            if json.loads(answer)["translations"][0][0]["text"] != expected[line]:
                seen.different.append(line)
    writer.close()


async def load(address: tuple[str, int], expected: dict[str, str], clients: int, seconds: float) -> Seen:
    seen, until = Seen(), time.perf_counter() + seconds
    await asyncio.gather(*(client(address, expected, until, seed, seen) for seed in range(clients)))
    return seen


def report(seen: Seen, seconds: float) -> int:
    """Print a summary; returns the exit status."""
    different = len(set(seen.different))
    print(f"statuses: {dict(seen.statuses)}; {seen.statuses['200'] / seconds:.0f} answers per second")
    if len(seen.seconds) > 1:
        cuts = statistics.quantiles(seen.seconds, n=100, method="inclusive")
        print(f"latency: p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s, longest {max(seen.seconds):.3f} s")
    print(f"translations compared: {len(seen.seconds)}; different: {len(seen.different)}, of {different} lines")
    if not seen.seconds:
        print("no translation was compared, so this test shows nothing")
    return int(bool(not seen.seconds or seen.different or seen.statuses.keys() - {"200", "429"}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--url", help="use this running service instead of starting one")
    parser.add_argument("--serve", default="", help="arguments for `nmt serve`")
    given = parser.parse_args()
    lines = [line for line in given.text.read_text(encoding="utf-8").split("\n") if line.strip()]
    if not lines:
        parser.error(f"{given.text}: no line to translate")
    translator = nmt.load(given.model, device="cpu")
    expected = {line: translator.translate([line])[0] for line in lines}
    del translator
    service, url = None, given.url
    if url is None:
        command = [sys.executable, "-m", "nmt", "serve", given.model, "--port", "0", *given.serve.split()]
        service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert service.stderr
        url = next((line.split()[-1] for line in service.stderr if line.startswith("listening on")), None)
        if url is None:
            parser.error(f"{given.model}: nmt serve did not start")
    place = urlsplit(url)
    seen = asyncio.run(load((place.hostname or "", place.port or 80), expected, given.clients, given.seconds))
    status = report(seen, given.seconds)
    if service:
        service.terminate()
        print(f"service: {service.communicate()[1].strip()}; status {service.returncode}")
        status = status or service.returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
