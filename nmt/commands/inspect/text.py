"""What is printed of an inspection, and the same as data."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from nmt.commands.inspect.inspect import KINDS, Inspection, Side

FORMAT, VERSION = "nmt-inspection", 1


def to_text(seen: Inspection) -> str:
    """The translation, what each of its words looked at most, and what the beam found."""
    return "\n".join(_lines(seen))


def _lines(seen: Inspection) -> Iterator[str]:
    one = seen.translation
    yield f"source       {seen.source.text}"
    yield f"{'given' if seen.given else 'translation':12} {seen.target.text}"
    yield f"             score {one.score:.4f}, log P {one.log_probability:.4f}, {len(one.pieces)} subwords"
    yield ""
    layers, heads = seen.attention["cross"].shape[:2]
    layer = f"layer {seen.alignment_layer + 1} of {layers}"
    yield f"word alignment: cross-attention of decoder {layer}, mean of {heads} heads"
    if not (linked := list(links(seen))):
        yield "  none: the translation is empty"
    for target, source, share in linked:
        yield f"  {share:4.0%}  {target} ← {source}"
    yield ""
    finished = sum(node.fate == "finished" for node in seen.nodes)
    yield (
        f"beam of {seen.beam_size}: {seen.nodes[-1].step} steps, {len(seen.nodes)} hypotheses looked at, "
        f"{finished} finished"
    )
    for hypothesis in seen.hypotheses:
        yield f"  {hypothesis.score:8.4f}  {hypothesis.text}"


def links(seen: Inspection) -> Iterator[tuple[str, str, float]]:
    """For each target word the source word that it looks at most, and its share of the attention.

    The ends of sentence are left out: heads that look for nothing look there.
    """
    source, target = seen.source.words[:-1], seen.target.words[:-1]
    for word, row in zip(target, seen.alignment.tolist(), strict=False):
        best = max(range(len(source)), key=row.__getitem__)
        yield word.text, source[best].text, row[best]


def to_data(seen: Inspection, digits: int = 6, position_digits: int = 6) -> dict[str, Any]:
    """All of it as JSON values, with so many digits behind the point; docs/looking-inside.md says the shapes."""
    one = seen.translation
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": seen.model,
        "source": _side(seen.source),
        "target": {
            **_side(seen.target),
            "given": seen.given,
            "score": one.score,
            "log_probability": one.log_probability,
            "token_scores": one.token_scores,
        },
        "attention": {kind: _rounded(seen.attention[kind], digits) for kind in KINDS},
        "alignment": {"layer": seen.alignment_layer + 1, "weights": _rounded(seen.alignment, digits)},
        "hypotheses": [
            {
                "text": found.text,
                "score": found.score,
                "log_probability": found.log_probability,
                "pieces": found.pieces,
                "token_scores": found.token_scores,
            }
            for found in seen.hypotheses
        ],
        "beam": {"size": seen.beam_size, "nodes": _nodes(seen)},
        "positions": {
            "layout": seen.layout,
            "titles": {name: position_title(name, seen.layout) for name in seen.positions},
            "tables": {name: _rounded(table, position_digits) for name, table in seen.positions.items()},
        },
    }


def position_title(name: str, layout: str) -> str:
    """What a table of positions is, of a model with this layout."""
    if layout == "learned":
        return f"Learned positions of the {name}"
    what = {
        "interleaved": "Sinusoids, interleaved (the paper's formula)",
        "concatenated": "Sinusoids, sines then cosines (Tensor2Tensor)",
    }
    return what[name] + (", as this model has them" if name == layout else "")


def _side(side: Side) -> dict[str, Any]:
    spans = [{"text": word.text, "start": word.start, "end": word.end} for word in side.words]
    return {"text": side.text, "language": side.language, "pieces": side.pieces, "words": spans}


def _nodes(seen: Inspection) -> list[dict[str, Any]]:
    return [
        {
            "parent": node.parent,
            "step": node.step,
            "piece": piece,
            "log_p": round(node.log_p, 6),
            "total": round(node.total, 6),
            "score": round(node.score, 6),
            "fate": node.fate,
            **({"rank": seen.ranks[place] + 1} if place in seen.ranks else {}),
        }
        for place, (node, piece) in enumerate(zip(seen.nodes, seen.node_pieces, strict=True))
    ]


def _rounded(table: Tensor, digits: int) -> Any:
    """A tensor as lists of numbers."""

    def rounded(values: Any) -> Any:
        return [rounded(value) for value in values] if isinstance(values, list) else round(values, digits)

    return rounded(table.tolist())
