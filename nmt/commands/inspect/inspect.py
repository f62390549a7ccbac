"""A sentence in a model: its translation or one that is given, every head's attention, alignment, beam, positions.

Shapes: L layers, H heads, S source and T target subwords, EOS counted in both, P positions, D d_model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from nmt import device as devices
from nmt.checkpoints import export_folder, model_file
from nmt.commands.inspect.beam_trace import Node, RecordingEngine, tokens_of
from nmt.commands.inspect.word_alignment import Word, by_word, words
from nmt.config import schema
from nmt.data.vocabulary import BOS, EOS, Vocabulary
from nmt.decoding import quantize
from nmt.decoding.translator import Translation, Translator
from nmt.errors import NmtError
from nmt.models.transformer.model import Transformer
from nmt.models.transformer.positions import sinusoids

KINDS = ("encoder", "decoder", "cross")  # of attention
_POSITIONS = 100  # shown


@dataclass(frozen=True)
class Side:
    """One sentence: its text, the language's code, its subwords (EOS last), and the words that these make."""

    text: str
    language: str
    pieces: list[str]
    words: list[Word]


@dataclass(frozen=True)
class Inspection:
    """What there is to see of one sentence pair.

    model: the name of its file. given: whether the target was, rather than found; translation: it, with its scores.
    attention: of each of KINDS [L, H, S or T, S or T]. A row of `decoder` and `cross` is what is looked at to say that
    target subword; the columns of `decoder` are what has been said before: `<s>`, then the target but for its end.
    alignment: between words, of the cross-attention in alignment_layer (from 0), the mean over heads.
    hypotheses: what the search found, best first; nodes: what it looked at, with a beam of beam_size.
    layout: of the model's positions; positions: tables [P, D] by name, of both layouts where they are sinusoids.
    """

    model: str
    source: Side
    target: Side
    given: bool
    translation: Translation
    attention: dict[str, Tensor]
    alignment: Tensor
    alignment_layer: int
    hypotheses: list[Translation]
    nodes: list[Node]
    node_pieces: list[str]
    ranks: dict[int, int]
    beam_size: int
    layout: str
    positions: dict[str, Tensor]

    def pieces(self, kind: str) -> tuple[list[str], list[str]]:
        """The subwords of the rows and of the columns of a kind of attention."""
        source, target = self.source.pieces, self.target.pieces
        return {"encoder": (source, source), "decoder": (target, ["<s>", *target[:-1]]), "cross": (target, source)}[
            kind
        ]


class Inspector:
    """A model, its vocabulary and how it searches."""

    def __init__(self, name: str, settings: schema.Config, vocabulary: Vocabulary, model: Transformer):
        """name: of the model, to be shown; settings: with the decoding that is wanted; model: in eval mode, float32."""
        self.name, self.settings, self.model = name, settings, model
        self.engine = RecordingEngine([model], next(model.parameters()).device)
        self.translator = Translator(self.engine, vocabulary, settings.search)

    @classmethod
    def load(cls, path: Path, device: str = "auto", overrides: Sequence[str] = ()) -> "Inspector":
        """The model of a file or of a run's folder, in float32; overrides: `decoding.key=value`.

        Raises NmtError where the file is none of ours, an override is wrong, or the device is not there.
        """
        if export_folder.is_ctranslate2(path):
            raise NmtError(f"{path}: an exported folder cannot be looked into: give the model file or the run's folder")
        file = model_file.locate(path)
        loaded = model_file.load(file)
        settings = schema.override(loaded.config, overrides)
        if settings.decoding.method != "beam":
            raise NmtError("decoding.method: sample: only a beam search can be looked into: add decoding.method=beam")
        model = quantize.prepare(loaded.build(), devices.choose(device), "float32")
        if not isinstance(model, Transformer):
            raise NmtError(
                f"{file}: a {type(model).__name__}, and only a Transformer can be inspected: for its alignment, use "
                "nmt translate --format json"
            )
        return cls(file.name, settings, loaded.vocabulary, model)

    def inspect(self, source: str, target: str | None = None) -> Inspection:
        """One sentence and its translation: the best that is found, or `target`.

        Raises NmtError for a source without words or longer than is translated as it is, a target longer than the
        model has positions for, and a model whose scores are not numbers.
        """
        ids = self._source_ids(source)
        translator, vocabulary, data = self.translator, self.translator.vocabulary, self.settings.data
        consensus = translator.decoding.consensus != "none"
        hypotheses = translator.hypotheses([source], 1 if consensus else translator.decoding.beam_size)[0]
        if target is None:
            translation, output = hypotheses[0], self._tokens(hypotheses[0])
        else:
            [scored], [output] = translator.score([source], [target]), vocabulary.target.encode([target])
            if scored is None:
                raise NmtError(f"the target has {len(output)} subwords, more than an output may have: shorten it")
            translation = scored
        found = self.attention(ids, output)
        layer = max(0, len(found["cross"]) - 2)  # as translators align
        pieces = vocabulary.source.pieces([*ids, EOS])
        sides = (
            Side(source, data.source_language, pieces, words(pieces)),
            Side(translation.text, data.target_language, translation.pieces, words(translation.pieces)),
        )
        return Inspection(
            model=self.name,
            source=sides[0],
            target=sides[1],
            given=target is not None,
            translation=translation,
            attention=found,
            alignment=by_word(found["cross"][layer].mean(dim=0), sides[1].words, sides[0].words),
            alignment_layer=layer,
            hypotheses=hypotheses,
            nodes=self.engine.nodes,
            node_pieces=vocabulary.target.pieces([node.token for node in self.engine.nodes]),
            ranks=self._ranks(hypotheses),
            beam_size=translator.decoding.beam_size,
            layout=self.model.config.positions,
            positions=position_tables(self.model),
        )

    @torch.inference_mode()
    def attention(self, source: Sequence[int], target: Sequence[int]) -> dict[str, Tensor]:
        """Of a sentence pair in ids, EOS left out: for each of KINDS [L, H, ·, ·], on the CPU."""
        device = self.engine.device
        weights = self.model.attention_weights(
            torch.tensor([[*source, EOS]], device=device), torch.tensor([[BOS, *target]], device=device)
        )
        return {kind: torch.stack(getattr(weights, kind))[:, 0].cpu() for kind in KINDS}

    def _source_ids(self, source: str) -> list[int]:
        [ids] = self.translator.vocabulary.source.encode([source])
        limit = self.translator.longest_source
        if not ids or not source.strip():
            raise NmtError("the source text is empty: give a sentence")
        if limit is not None and len(ids) > limit:
            raise NmtError(
                f"the source text has {len(ids)} subwords, and this model translates up to {limit} at once: "
                "give one sentence, or a shorter one"
            )
        return ids

    def _tokens(self, translation: Translation) -> list[int]:
        """Those that its search found: another way of cutting the same text would be another output."""
        target = self.translator.vocabulary.target
        return next(one.tokens for one in self.engine.found if target.pieces([*one.tokens, EOS]) == translation.pieces)

    def _ranks(self, hypotheses: Sequence[Translation]) -> dict[int, int]:
        """By node: the place (from 0) among the hypotheses of what finished there and was found."""
        target, nodes = self.translator.vocabulary.target, self.engine.nodes
        ended = {
            tuple(target.pieces(tokens_of(nodes, place))): place
            for place, node in enumerate(nodes)
            if node.fate == "finished"
        }
        return {ended[tuple(one.pieces)]: rank for rank, one in enumerate(hypotheses)}


def position_tables(model: Transformer) -> dict[str, Tensor]:
    """The encodings of the first positions, [P, D] by name: both layouts of the sinusoids, or what was learned."""
    config = model.config
    if model.longest_position is not None:
        count = min(_POSITIONS, model.longest_position)
        learned = {"source": model.source_positions(0, count), "target": model.target_positions(0, count)}
        return {name: table.detach().float().cpu() for name, table in learned.items()}
    return {layout: sinusoids(_POSITIONS, config.d_model, layout) for layout in ("interleaved", "concatenated")}
