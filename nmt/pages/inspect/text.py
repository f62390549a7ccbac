"""An inspection as text and as data."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from torch import Tensor

from nmt.files.table import table
from nmt.pages.inspect.inspect import Inspection

FORMAT, VERSION = "nmt-inspection", 2


def to_text(inspection: Inspection) -> str:
    """The translation, the word alignment and the results of the search."""
    best, nodes = inspection.translation, inspection.nodes
    finished = sum(node.fate == "finished" for node in nodes)
    beam = f"{nodes[-1].step} steps, {len(nodes)} hypotheses considered, {finished} finished"
    lines = [
        f"source       {inspection.source.text}",
        f"{'given' if inspection.given else 'translation':12} {inspection.target.text}",
        f"             score {best.score:.4f}, log P {best.log_probability:.4f}, {len(best.pieces)} subwords",
        "",
        f"word alignment: {inspection.inside.aligned_by}",
        *_links(inspection),
        "",
        f"beam of {inspection.beam_size}: {beam}",
        table([[f"  {hypothesis.score:.4f}", hypothesis.text] for hypothesis in inspection.hypotheses], left=(1,)),
    ]
    return "\n".join(lines)


def _links(inspection: Inspection) -> Iterator[str]:
    """The word alignment, and the source subword that hard attention reads for each target subword."""
    if inspection.alignment is None:
        return
    links = [[f"  {share:.0%}", f"{target} ← {source}"] for target, source, share in strongest_links(inspection)]
    yield table(links, left=(1,)) if links else "  none: the translation is empty"
    if inspection.inside.chosen is not None:
        pairs = zip(inspection.target.pieces, inspection.inside.chosen.tolist(), strict=True)
        read = ", ".join(f"{target} ← {inspection.source.pieces[i]} ({i + 1})" for target, i in pairs)
        yield f"\nread for each subword: {read}"


def strongest_links(inspection: Inspection) -> Iterator[tuple[str, str, float]]:
    """For each target word, the word, the source word with the most attention, and its share.

    The ends of sentences are left out, because heads often attend to them without meaning.
    """
    assert inspection.alignment is not None
    source, target = inspection.source.words[:-1], inspection.target.words[:-1]
    for word, row in zip(target, inspection.alignment.tolist(), strict=False):
        best = max(range(len(source)), key=row.__getitem__)
        yield word.text, source[best].text, row[best]


def to_data(inspection: Inspection, digits: int = 6, position_digits: int = 6) -> dict[str, Any]:
    """The inspection as JSON values with this number of decimal places; docs/looking-inside.md explains the fields."""
    translation, inside = inspection.translation, inspection.inside
    alignment = inspection.alignment
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": inspection.model,
        "source": asdict(inspection.source),
        "target": {
            **asdict(inspection.target),
            "given": inspection.given,
            "score": translation.score,
            "log_probability": translation.log_probability,
            "token_scores": translation.token_scores,
        },
        "attention": {kind: _rounded(weights, digits) for kind, weights in inside.attention.items()},
        "centers": None if inside.centers is None else _rounded(inside.centers, digits),
        "window": inside.window,
        "chosen": None if inside.chosen is None else inside.chosen.tolist(),
        "alignment": {
            "by": inside.aligned_by,
            "weights": None if alignment is None else _rounded(alignment, digits),
        },
        "missing": inside.missing,
        "hypotheses": [
            {name: value for name, value in asdict(hypothesis).items() if value is not None}
            for hypothesis in inspection.hypotheses
        ],
        "beam": {"size": inspection.beam_size, "nodes": _nodes(inspection)},
        "positions": {
            "layout": inside.layout,
            "titles": {name: position_title(name, inside.layout) for name in inside.positions},
            "tables": {name: _rounded(table, position_digits) for name, table in inside.positions.items()},
        },
    }


def position_title(name: str, layout: str) -> str:
    """The title of a table of positions. layout: the layout of the model."""
    if layout == "learned":
        return f"Learned positions of the {name}"
    titles = {
        "interleaved": "Sinusoids, interleaved (the paper's formula)",
        "concatenated": "Sinusoids, sines then cosines (Tensor2Tensor)",
    }
    return titles[name] + (", as this model has them" if name == layout else "")


def _nodes(inspection: Inspection) -> list[dict[str, Any]]:
    rows = []
    for i, (node, piece) in enumerate(zip(inspection.nodes, inspection.node_pieces, strict=True)):
        numbers = {name: round(getattr(node, name), 6) for name in ("log_p", "total", "score")}
        row = {"parent": node.parent, "step": node.step, "piece": piece, **numbers, "fate": node.fate}
        if i in inspection.ranks:
            row["rank"] = inspection.ranks[i] + 1
        rows.append(row)
    return rows


def _rounded(table: Tensor, digits: int) -> Any:
    """A tensor as nested lists of numbers with this many decimal places."""
    return table.double().round(decimals=digits).tolist()
