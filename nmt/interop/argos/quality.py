"""What Argos Translate's search and 8-bit numbers cost: BLEU and chrF on validation text, beside those of the model."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_pairs import LanguagePair
from nmt.data.prepare import read_validation
from nmt.errors import NmtError
from nmt.evaluation.metrics import ValidationMetrics
from nmt.files.table import table
from nmt.interop.argos import engine as argos_engine
from nmt.interop.argos import export as argos
from nmt.interop.export_options import Options
from nmt.loading.opened_model import open_model

log = logging.getLogger("nmt")

_MOST_LINES = 500  # of each text


@dataclass(frozen=True)
class Text:
    """Lines of two languages to score translations on."""

    pair: LanguagePair
    sources: list[str]
    references: list[str]


def texts(loaded: Checkpoint, options: Options) -> list[Text]:
    """That of --sample and --reference, or the first lines of each validation set that is a file here. The log names
    those that cannot be read."""
    data = loaded.config.data
    if options.references is not None:
        return [Text(data.language_pairs.pairs[0], list(options.lines), list(options.references))]
    found = []
    for corpus in data.held_out:
        try:
            if corpus.source is None and corpus.file is None:  # it would be downloaded
                raise NmtError(f"{corpus.label}: not a file")
            sources, references = zip(*read_validation(corpus, data)[:_MOST_LINES], strict=True)
            found.append(Text(data.pair_of(corpus), list(sources), list(references)))
        except NmtError as error:
            log.info("data.validation: %s: nothing is scored on it; --sample with --reference names other text", error)
    return found


def measure(destination: Path, loaded: Checkpoint, options: Options) -> str:
    """The scores of each text as a table; empty if there is no text."""
    rows = [row for text in texts(loaded, options) for row in _rows(text, destination, loaded, options)]
    head = ["text", "translated by", "weights", "BLEU", "chrF"]
    return table([head, *rows], left=(0, 1, 2), rule=True) if rows else ""


def _rows(text: Text, destination: Path, loaded: Checkpoint, options: Options) -> Iterator[list[str]]:
    assert loaded.path is not None
    translator = open_model(loaded.path).translator("cpu")
    texts_ = translator.translate(text.sources, to=text.pair.target, from_=text.pair.source)
    name = f"{text.pair}, {len(text.sources):,} lines"
    yield [name, "nmt", "float32", *scores(text, texts_)]
    with TemporaryDirectory(prefix="nmt-") as folder:
        for quantization in dict.fromkeys(["float32", options.quantization]):
            place = destination
            if quantization != options.quantization:
                place = Path(folder)
                argos.write(place, loaded, replace(options, quantization=quantization, sentence_splitter=None))
            package = argos.packages(place, loaded.config)[text.pair]
            translations = argos_engine.translate(package, text.sources)
            yield [name, "Argos Translate", quantization, *scores(text, translations)]


def scores(text: Text, translations: Sequence[str]) -> list[str]:
    """BLEU and chrF, as they are printed."""
    by_metric = ValidationMetrics(text.pair.target).scores(translations, text.references)
    return [f"{value:.2f}" for value in by_metric.values()]
