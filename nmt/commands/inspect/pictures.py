"""Heat maps of attention, alignment and positions as PNG files.

Shapes: L layers, H heads, T rows and S columns of a heat map, P positions, D d_model.
"""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from nmt.commands.inspect import fonts
from nmt.commands.inspect.inspect import Inspection
from nmt.commands.inspect.text import position_title
from nmt.files import atomic
from nmt.models.interface import Inside

_TITLES = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}
_AXES = {  # labels of the rows and the columns
    "encoder": ("source subword", "attended source subword"),
    "decoder": ("predicted target subword", "attended earlier target subword"),
    "cross": ("predicted target subword", "attended source subword"),
}
_LONGEST_LABEL = 30  # characters; longer ones, such as web addresses, are shortened
_POINTS = 8  # font size of labels
_LARGEST = 40.0  # inches: largest side of a picture; a very long sentence gets smaller labels instead
_DPI = 100
_COLOURS = "magma_r"


def write(inspection: Inspection, folder: Path, layer: int | None = None) -> list[Path]:
    """Write all pictures of an inspection; return their paths.

    For each kind of attention that the model has, an overview, if there are several heads or layers, and each head of
    one layer; then the word alignment and the positions. layer: from 0, or the last one if that kind has fewer layers;
    None for the layer of the alignment.
    """
    sides = (inspection.source, inspection.target)
    labels = [label for side in sides for label in (*side.pieces, *(word.text for word in side.words))]
    figures: dict[str, Figure] = {}
    families = fonts.families("".join(labels), [side.language for side in sides])
    # Dollar signs in labels are text, not formulas.
    style = matplotlib.rc_context({"font.family": families, "font.size": 9, "text.parse_math": False})
    with style, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # `families` warns once
        inside = inspection.inside
        for kind, weights in inside.attention.items():
            if weights.shape[0] * weights.shape[1] > 1:
                figures[f"attention-{kind}"] = _overview(kind, weights)
            chosen = min(inside.layer if layer is None else layer, len(weights) - 1)
            figures[f"attention-{kind}-heads"] = _heads(inspection, kind, weights[chosen], chosen)
        if inspection.alignment is not None:
            figures["alignment"] = _alignment(inspection, inspection.alignment)
        if inside.positions:
            figures["positions"] = _positions(inside)
        return [_save(figure, folder / f"{name}.png") for name, figure in figures.items()]


def _save(figure: Figure, path: Path) -> Path:
    with atomic.reporting(path, "--output"), atomic.replacing(path) as content:
        figure.savefig(content, format="png", dpi=_DPI, pil_kwargs={"optimize": True}, metadata={"Software": "nmt"})
    return path


def _overview(kind: str, weights: Tensor) -> Figure:
    """Every head of every layer, weights [L, H, T, S]: layers from top to bottom, heads from left to right."""
    layers, heads, rows, columns = weights.shape
    gap = (max(1, rows // 12), max(1, columns // 12))
    tiles = F.pad(weights, (0, gap[1], 0, gap[0]), value=math.nan)  # NaN has no colour
    tall, wide = tiles.shape[2:]
    mosaic = tiles.transpose(1, 2).reshape(layers * tall, heads * wide)[: -gap[0], : -gap[1]]
    inches = max(0.85, min(1.6, 12 / heads))  # width of one heat map
    height = inches * min(max(rows / columns, 0.4), 2.5)
    figure = Figure(_inches(inches * heads + 1.4, height * layers + 1.1), layout="constrained")
    panel = figure.subplots()
    image = panel.imshow(mosaic.numpy(), cmap=_COLOURS, vmin=0, vmax=1, aspect="auto")
    panel.set_xticks([wide * i + (columns - 1) / 2 for i in range(heads)], [f"head {i + 1}" for i in range(heads)])
    panel.set_yticks([tall * i + (rows - 1) / 2 for i in range(layers)], [f"layer {i + 1}" for i in range(layers)])
    panel.tick_params(length=0, labeltop=True, labelbottom=False)
    panel.spines[:].set_visible(False)
    row, column = _AXES[kind]
    figure.suptitle(f"{_TITLES[kind]}\nrows: {row}, columns: {column}", fontsize=10)
    figure.colorbar(image, ax=panel, shrink=0.6, pad=0.02, aspect=30)
    return figure


def _heads(inspection: Inspection, kind: str, weights: Tensor, layer: int) -> Figure:
    """Each head of one layer, weights [H, T, S], with labels."""
    heads = len(weights)
    rows, columns = inspection.pieces(kind)
    across = min(heads, 2 if len(columns) > 16 else 4 if heads > 4 else heads)
    down = math.ceil(heads / across)
    wide, tall = 0.17 * len(columns) + 0.6 + _room(rows), 0.17 * len(rows) + 0.6 + _room(columns)
    size = _inches(wide * across + 0.8, tall * down + 0.8)
    crowded = min(1.0, size[0] / (wide * across), size[1] / (tall * down))  # below 1: not enough room for the labels
    figure = Figure(size, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flatten()
    for panel in panels[heads:]:
        panel.axis("off")
    for head, panel in enumerate(panels[:heads]):
        image = _labelled(panel, weights[head], rows, columns, _POINTS * crowded)
        if kind == "cross":
            _mark(panel, inspection.inside)
        if heads > 1:
            panel.set_title(f"head {head + 1}", fontsize=9)
    of_layer = f", layer {layer + 1}" if len(inspection.inside.attention[kind]) > 1 or heads > 1 else ""
    figure.suptitle(f"{_TITLES[kind]}{of_layer}", fontsize=11)
    figure.supylabel(_AXES[kind][0], fontsize=9)
    figure.supxlabel(_AXES[kind][1], fontsize=9)
    figure.colorbar(image, ax=list(panels), shrink=0.5, pad=0.02, aspect=30)
    return figure


def _mark(panel: Axes, inside: Inside) -> None:
    """On a heat map of attention to the source [T, S]: where it looks, if it looks at some positions only."""
    limits = panel.get_xlim()
    if inside.centers is not None and inside.window is not None:
        centers, rows = inside.centers.numpy(), range(len(inside.centers))
        edges = centers - inside.window, centers + inside.window
        panel.hlines(rows, *edges, color="tab:blue", linewidth=1, label=f"window, p ± {inside.window}")
        panel.plot(centers, rows, "o", color="tab:blue", markersize=5, label="centre, p")
    if inside.chosen is not None:
        chosen, rows = inside.chosen.numpy(), range(len(inside.chosen))
        panel.plot(chosen, rows, "gs", fillstyle="none", markersize=9, markeredgewidth=2, label="position that is read")
    panel.set_xlim(limits)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)


def _alignment(inspection: Inspection, alignment: Tensor) -> Figure:
    """The word alignment [M, N], with percentages."""
    rows, columns = ([word.text for word in side.words] for side in (inspection.target, inspection.source))
    size = (0.42 * len(columns) + 1.5 + _room(rows), 0.32 * len(rows) + 1.2 + _room(columns))
    figure = Figure(_inches(*size), layout="constrained")
    panel = figure.subplots()
    image = _labelled(panel, alignment, rows, columns)
    if size[0] <= _LARGEST and size[1] <= _LARGEST:
        for y, row in enumerate(alignment.tolist()):
            for x, share in enumerate(row):
                if share >= 0.005:
                    colour = "white" if share > 0.5 else "black"
                    panel.text(x, y, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
    # Of the figure, because next to long labels the map may be narrower than the title.
    figure.suptitle(f"Word alignment (%): {inspection.inside.aligned_by}", fontsize=10)
    panel.set(ylabel="target word", xlabel="source word")
    figure.colorbar(image, ax=panel, shrink=0.6, aspect=30)
    return figure


def _labelled(
    panel: Axes, weights: Tensor, rows: Sequence[str], columns: Sequence[str], points: float = _POINTS
) -> AxesImage:
    """Draw a heat map [T, S] with a label of this font size for each row and column."""
    image = panel.imshow(weights.numpy(), cmap=_COLOURS, vmin=0, vmax=1, aspect="auto")
    panel.set_xticks(range(len(columns)), list(map(_shortened, columns)), rotation=90, fontsize=points)
    panel.set_yticks(range(len(rows)), list(map(_shortened, rows)), fontsize=points)
    panel.tick_params(length=0)
    return image


def _shortened(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def _room(labels: Sequence[str]) -> float:
    """The width of the longest label, in inches."""
    figure = Figure(dpi=_DPI)
    drawn = [figure.text(0, 0, _shortened(label), fontsize=_POINTS) for label in set(labels)]
    return max(text.get_window_extent().width for text in drawn) / _DPI


def _positions(inside: Inside) -> Figure:
    """The tables of positions, [P, D] each, below each other."""
    tables = inside.positions
    figure = Figure((8, 3.1 * len(tables)), layout="constrained")
    for panel, (name, table) in zip(figure.subplots(len(tables), squeeze=False).flatten(), tables.items(), strict=True):
        most = 1.0 if inside.layout != "learned" else float(table.abs().max())
        image = panel.imshow(table.numpy(), cmap="RdBu", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        panel.set_title(position_title(name, inside.layout), fontsize=10)
        panel.set(xlabel="dimension", ylabel="position")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.colorbar(image, ax=panel, pad=0.02)
    return figure


def _inches(wide: float, tall: float) -> tuple[float, float]:
    """The size of a picture, large enough for its title and not above the maximum."""
    return min(max(wide, 6.8), _LARGEST), min(max(tall, 3.4), _LARGEST)
