"""Measure `nmt serve` under load: is every answer right, and how fast do they come?

    python scripts/load_test.py MODEL TEXT [--clients 200] [--seconds 60] [--url http://127.0.0.1:8000]

Translates each line of TEXT alone first, in batches of one. Then starts `nmt serve MODEL` (or uses the one at --url)
and has the clients send one line after the other, each on a connection of its own: every next line as soon as the
last is answered, or after the seconds that a 429 asks for. Prints what came back and exits with status 1 if anything
but 200 and 429 did, if an answer was not the one that the line has alone, or if there was no answer to compare.
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
    """What the clients saw."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)  # of those with status 200
    different: list[str] = field(default_factory=list)  # lines answered otherwise than alone


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of the answer to one line."""
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
    """Print it; the exit status."""
    different = len(set(seen.different))
    print(f"statuses: {dict(seen.statuses)}; {seen.statuses['200'] / seconds:.0f} answers a second")
    if len(seen.seconds) > 1:
        cuts = statistics.quantiles(seen.seconds, n=100, method="inclusive")
        print(f"latency: p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s, longest {max(seen.seconds):.3f} s")
    print(f"answers compared: {len(seen.seconds)}; not the ones alone: {len(seen.different)}, to {different} lines")
    if not seen.seconds:
        print("no answer was compared: this proves nothing")
    return int(bool(not seen.seconds or seen.different or seen.statuses.keys() - {"200", "429"}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--url", help="a service that runs already, rather than one started here")
    parser.add_argument("--serve", default="", help="arguments for the service started here")
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
        url = service.stderr.readline().split()[-1]
    place = urlsplit(url)
    seen = asyncio.run(load((place.hostname or "", place.port or 80), expected, given.clients, given.seconds))
    status = report(seen, given.seconds)
    if service:
        service.terminate()
        print(f"the service: {service.communicate()[1].strip()}; status {service.returncode}")
        status = status or service.returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
