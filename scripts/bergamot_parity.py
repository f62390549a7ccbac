#!/usr/bin/env python3
"""Compare a folder of `nmt export --format bergamot` with its model, in Bergamot's own engine.

    scripts/bergamot_parity.py MODEL FOLDER --source FILE --reference FILE [--lines 1000]

The engine is Firefox's, @browsermt/bergamot-translator, in Node.js: scripts/bergamot_translate.mjs. Prints the number
of lines with the same translation by the engine and by the model in float32, and the BLEU of both.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import DecodingConfig
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.options import SearchOptions
from nmt.errors import NmtError
from nmt.evaluation.metrics import ValidationMetrics
from nmt.files.text import read_lines

_MOST_SUBWORDS = 126  # the engine cuts longer lines


def translate_by_bergamot(folder: Path, lines: Sequence[str]) -> list[str]:
    """Translate the lines one by one with Bergamot."""
    script = Path(__file__).with_name("bergamot_translate.mjs")
    text = "".join(f"{line}\n" for line in lines)
    process = subprocess.run(["node", script, folder], input=text, capture_output=True, encoding="utf-8", check=False)
    if process.returncode:
        raise NmtError(f"node {script.name}: {process.stderr.strip()}")
    return process.stdout.split("\n")[:-1]


def translate_by_nmt(engine: PyTorchEngine, loaded: Checkpoint, lines: Sequence[str]) -> list[str]:
    """Translate the lines with nmt and Bergamot's search: greedy, and with outputs at most twice as long as the
    source."""
    sources = [SearchInput(ids, 2 * (len(ids) + 1)) for ids in loaded.vocabulary.source.encode(list(lines))]
    options = SearchOptions(DecodingConfig(beam_size=1))
    hypotheses = engine.search(sources, options, engine.auto_batch_tokens)
    return loaded.vocabulary.target.decode([best.tokens for [best] in hypotheses])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a model file or a run folder")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    arguments = parser.parse_args()
    loaded = model_file.load(model_file.locate(arguments.model))
    encode = loaded.vocabulary.source.encode
    pairs = zip(read_lines(arguments.source), read_lines(arguments.reference), strict=True)
    pairs = islice((pair for pair in pairs if 0 < len(encode([pair[0]])[0]) <= _MOST_SUBWORDS), arguments.lines)
    sources, references = map(list, zip(*pairs, strict=True))
    engine = translate_by_bergamot(arguments.folder, sources)
    model = translate_by_nmt(PyTorchEngine([loaded.build()], torch.device("cpu")), loaded, sources)
    for name, translations in (("the engine, 8 bits", engine), ("the model, float32", model)):
        print(f"{name:18} BLEU {ValidationMetrics('').scores(translations, references)['bleu']:6.2f}")
    equal = sum(first == second for first, second in zip(engine, model, strict=True))
    print(f"equal lines: {equal:,} of {len(sources):,}")


if __name__ == "__main__":
    try:
        main()
    except NmtError as error:
        sys.exit(f"error: {error}")
