"""Text in, text out: a model file as a translator."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from nmt import checkpoint, config
from nmt import device as devices
from nmt.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from nmt.decoding import long_input
from nmt.decoding.engine import Engine, Source, TransformerEngine
from nmt.decoding.hypothesis import Hypothesis, Options
from nmt.errors import NmtError

# Whatever some program takes for the end of a line, and the tab, which parts columns.
_BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
CHUNK_LINES = 2000  # read, sorted by length and translated together
_CHUNK_CHARACTERS = 1_000_000  # so that lines as long as books do not fill the memory


@dataclass(frozen=True)
class Translation:
    """One translation of one line.

    score is log P(Y|X) over the length penalty; pieces are its subwords and the end of sentence, and
    token_scores the log P of each. The translation of a line without words is empty, with score 0 and no pieces.
    """

    text: str
    score: float
    log_probability: float
    pieces: list[str]
    token_scores: list[float]


@dataclass
class Counts:
    """What became of the lines read; `parts` are those that the `split` ones were translated in."""

    lines: int = 0
    empty: int = 0
    cut: int = 0
    skipped: int = 0
    split: int = 0
    parts: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(mine + others for mine, others in zip(astuple(self), astuple(other), strict=True)))


def chunked(lines: Iterable[str], chunk_lines: int = CHUNK_LINES) -> Iterator[list[str]]:
    """Lines that are translated together: so many, or fewer very long ones. The chunks of a chunk are itself."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == chunk_lines or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


class Translator:
    """An engine, its vocabulary and how to search. `decoding` may be replaced; `counts` grow with each line read."""

    def __init__(self, engine: Engine, vocabulary: Vocabulary, decoding: config.Decoding):
        self.engine, self.vocabulary, self.decoding = engine, vocabulary, decoding
        self.counts = Counts()

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> "Translator":
        """The translator in a model file, or the best one in a run's folder.

        Raises NmtError where the file is missing, damaged or not a model, or the device is not there.
        """
        chosen = devices.choose(device)
        loaded = checkpoint.load(checkpoint.locate(Path(path)))
        settings, model = loaded.config, loaded.build().to(chosen)
        model.lay_out_for_search()
        engine = TransformerEngine(model, chosen, settings.training.precision)
        return cls(engine, loaded.vocabulary, settings.search)

    @property
    def longest_source(self) -> int | None:
        """The most subwords that are translated as they are: decoding.max_source_tokens, or fewer where the model
        has learned fewer positions; None: any number."""
        limits = (self.decoding.max_source_tokens, self.engine.positions)
        return min((limit for limit in limits if limit is not None), default=None)

    def translate(self, lines: Sequence[str]) -> list[str]:
        """The best translation of each line. Raises as `stream` does, and TypeError for one text alone."""
        if isinstance(lines, str):
            raise TypeError("translate takes a list of lines: [text] for one")
        return list(self.stream(lines))

    def hypotheses(self, lines: Sequence[str], n_best: int = 1) -> list[list[Translation]]:
        """The n best translations of each line, best first, with their scores. Raises as `stream` does."""
        return list(self.stream_hypotheses(lines, n_best))

    def stream(self, lines: Iterable[str], chunk_lines: int = CHUNK_LINES, first: int = 1) -> Iterator[str]:
        """`translate` for any number of lines: one comes out for each that goes in, in order.

        At most chunk_lines are read before the first comes out: 1 answers line by line. `first` is the number of
        the first line, for messages. No translation holds a line break or a tab. Raises NmtError for a line over
        decoding.max_source_tokens where decoding.long_input is `error`, and for a model whose scores are not numbers.
        """
        for chunk in self._chunks(lines, chunk_lines, first, n_best=1, scores=False):
            yield from self._texts([hypotheses[0].tokens for hypotheses in chunk])

    def stream_hypotheses(
        self, lines: Iterable[str], n_best: int = 1, chunk_lines: int = CHUNK_LINES, first: int = 1
    ) -> Iterator[list[Translation]]:
        """`hypotheses` for any number of lines, as `stream`. Raises NmtError too where n_best is above the beam."""
        if n_best > self.decoding.beam_size:
            raise NmtError(
                f"{n_best} best translations of a beam of {self.decoding.beam_size}: raise decoding.beam_size "
                "or ask for fewer"
            )
        for chunk in self._chunks(lines, chunk_lines, first, n_best):
            yield from map(self._translations, chunk)

    def _chunks(
        self, lines: Iterable[str], chunk_lines: int, first: int, n_best: int, scores: bool = True
    ) -> Iterator[list[list[Hypothesis]]]:
        for chunk in chunked(lines, chunk_lines):
            yield self._chunk(chunk, first, n_best, scores)
            first += len(chunk)

    def _chunk(self, lines: list[str], first: int, n_best: int, scores: bool) -> list[list[Hypothesis]]:
        """The hypotheses for each line, at least one each; `first` is the number of the first line."""
        found = [[_NOTHING]] * len(lines)
        sources = self._sources(lines, first)
        options = Options(
            bos=BOS,
            eos=EOS,
            never=(PAD, UNK, BOS),
            beam_size=self.decoding.beam_size,
            length_penalty=self.decoding.length_penalty,
            n_best=n_best,
            scores=scores,
        )
        flat = [source for parts in sources.values() for source in parts]
        results = iter(self.engine.search(flat, options, self.decoding.batch_tokens))
        for number, parts in sources.items():
            hypotheses = [next(results) for _ in parts]
            if not all(hypotheses):
                raise NmtError(
                    f"line {number}: the model's scores are not numbers: its weights are damaged, or too large "
                    "for its precision: translate with another checkpoint"
                )
            found[number - first] = long_input.joined(hypotheses) or [_NOTHING]
        return found

    def _sources(self, lines: list[str], first: int) -> dict[int, list[Source]]:
        """By line number, the parts to translate, counted; each at most as long as model and settings allow."""
        sources: dict[int, list[Source]] = {}
        limit = self.longest_source
        for number, (line, ids) in enumerate(zip(lines, self.vocabulary.source.encode(lines), strict=True), first):
            self.counts.lines += 1
            if not ids or not line.strip():
                self.counts.empty += 1
            elif limit is None or len(ids) <= limit:
                sources[number] = [self._source(ids)]
            elif self.decoding.long_input == "split":
                parts = long_input.split(line, limit, self.vocabulary.source.encode)
                sources[number] = [self._source(part.ids) for part in parts if part.ids]
                self.counts.split += 1
                self.counts.parts += len(sources[number])
            elif self.decoding.long_input == "cut":
                self.counts.cut += 1
                sources[number] = [self._source(ids[:limit])]
            elif self.decoding.long_input == "skip":
                self.counts.skipped += 1
            else:
                key = "model.max_positions - 1" if limit == self.engine.positions else "decoding.max_source_tokens"
                raise NmtError(
                    f"line {number}: {len(ids)} subwords, more than {key}: {limit}: shorten or split it, or set "
                    "decoding.long_input to split, cut or skip"
                )
        return sources

    def _source(self, ids: list[int]) -> Source:
        longest = len(ids) + self.decoding.max_extra_tokens
        return Source(ids, longest if self.engine.positions is None else min(longest, self.engine.positions))

    def _texts(self, outputs: list[list[int]]) -> list[str]:
        return [_BREAKS.sub(" ", text) for text in long_input.decode(outputs, self.vocabulary.target.decode)]

    def _translations(self, hypotheses: list[Hypothesis]) -> list[Translation]:
        texts = self._texts([hypothesis.tokens for hypothesis in hypotheses])
        return [
            Translation(
                text,
                found.score,
                found.log_probability,
                self.vocabulary.target.pieces([*found.tokens, EOS])[: len(found.token_scores)],
                found.token_scores,
            )
            for text, found in zip(texts, hypotheses, strict=True)
        ]


_NOTHING = Hypothesis([], score=0.0, log_probability=0.0, token_scores=[])
