"""Each part against its equations, computed for one sentence, position by position, in float64: values and gradients.

`reference` is written from the papers: Bahdanau et al. 2015 (appendix A), Luong et al. 2015 (section 3), Cho et al.
2014, Liu et al. 2016. PyTorch computes nothing in it but sums, products and exponentials, and finds its gradients.
"""

import itertools
from typing import Any

import pytest
import torch
from helpers.recurrent_models import VARIANTS, make, name_of
from helpers.transformers import BOS, decoder_input, sentences
from torch import Tensor

from nmt.config.schema import RecurrentConfig
from nmt.models.recurrent.attention import additive_scores

Weights = dict[str, Tensor]
SOURCES, TARGETS = [7, 2, 5], [4, 6, 1]


# ------------------------------------------------------------------------ the equations


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def tanh(x: Tensor) -> Tensor:
    return (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1)


def softmax(scores: list[Tensor]) -> list[Tensor]:
    total = sum(map(torch.exp, scores), torch.zeros((), dtype=torch.float64))
    return [torch.exp(score) / total for score in scores]


class Cell:
    """A cell that reads one input after another."""

    def __init__(self, w: Weights, name: str, size: int):
        self.size = size
        names = ("input", "recurrent", "input_bias", "recurrent_bias")
        self.w, self.u, self.b, self.b2 = (w[f"{name}.{part}"] for part in names)

    def of_gate(self, gate: int, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        rows = slice(gate * self.size, (gate + 1) * self.size)
        return self.w[rows] @ x + self.b[rows], self.u[rows] @ h + self.b2[rows]


class Lstm(Cell):
    """Hochreiter and Schmidhuber 1997; Gers et al. 2000. State: h and c."""

    def __call__(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h, c = state
        entry, forget, new, output = (sum(self.of_gate(gate, x, h), torch.zeros(())) for gate in range(4))
        c = sigmoid(forget) * c + sigmoid(entry) * tanh(new)
        return sigmoid(output) * tanh(c), c


class Gru(Cell):
    """Cho et al. 2014, equations 5 to 8, with the reset gate on U h (their z is the share of the old state)."""

    def __call__(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (h,) = state
        reset, update = (sigmoid(sum(self.of_gate(gate, x, h), torch.zeros(()))) for gate in range(2))
        of_x, of_h = self.of_gate(2, x, h)
        return (update * h + (1 - update) * tanh(of_x + reset * of_h),)


def read(cell: Cell, xs: list[Tensor], count: int) -> list[Tensor]:
    """The states h after each input, from zeros."""
    state = (torch.zeros(cell.size, dtype=torch.float64),) * count
    found = []
    for x in xs:
        state = cell(x, state)  # type: ignore[operator]
        found.append(state[0])
    return found


def attention(
    w: Weights, config: RecurrentConfig, s: Tensor, h: list[Tensor], t: int
) -> tuple[list[Tensor], Tensor, Tensor]:
    """α of each source position, the context, and p_t."""
    w = {name.removeprefix("decoder.attention."): weight for name, weight in w.items()}
    size, window = len(h), config.attention_window
    center = torch.tensor(float(min(t, size - 1)))
    if config.attention_span == "local-p":  # Luong et al., equation 9
        center = size * sigmoid(w["place_energy"] @ tanh(w["place.weight"] @ s))
    local = config.attention_span != "global"
    seen = [j for j in range(size) if not local or abs(j - float(center.detach())) <= window]
    match config.attention:
        case "additive":  # Bahdanau et al., A.1.2
            e = [w["energy"] @ tanh(w["query.weight"] @ s + w["key.weight"] @ h[j] + w["key.bias"]) for j in seen]
        case "concat":
            both = torch.cat([w["query.weight"], w["key.weight"]], dim=1)
            e = [w["energy"] @ tanh(both @ torch.cat([s, h[j]])) for j in seen]
        case "dot":
            e = [s @ h[j] for j in seen]
        case "general":
            e = [s @ w["key.weight"] @ h[j] for j in seen]
        case "location":
            e = [w["query.weight"][j] @ s for j in seen]
        case "latent":
            e = [w["energy"] @ tanh(w["query.weight"] @ s + w["key.weight"] @ h[j]) for j in seen]
    alpha = [torch.zeros((), dtype=torch.float64)] * size
    for j, weight in zip(seen, softmax(e), strict=True):
        alpha[j] = weight
    if config.attention_span == "local-p":  # equation 10
        sigma = window / 2
        alpha = [a * torch.exp(-((j - center) ** 2) / (2 * sigma**2)) for j, a in enumerate(alpha)]
    if config.attention == "latent":
        active = [softmax([h[i] @ w["active.weight"] @ h[j] for i in range(size)]) for j in range(size)]
        alpha = [torch.stack([active[j][i] * alpha[j] for j in range(size)]).sum() for i in range(size)]
    if config.attention_choice == "hard":
        return alpha, h[max(range(size), key=lambda j: float(alpha[j].detach()))], center
    return alpha, torch.stack([a * state for a, state in zip(alpha, h, strict=True)]).sum(dim=0), center


def reference(
    w: Weights, config: RecurrentConfig, source: list[int], target: list[int]
) -> tuple[Tensor, list[list[Tensor]]]:
    """Logits [T, V] for the decoder's input `target`, and α of each position."""
    kind, parts = {"lstm": (Lstm, 2), "gru": (Gru, 1)}[config.cell]
    width, size = config.source_width // config.directions, config.hidden_size
    h, last = [w["source_embedding.weight"][token] for token in source], []
    for layer in range(config.encoder_layers):
        sides = []
        if config.direction != "backward":
            forwards = read(kind(w, f"encoder.{layer}.forwards", width), h, parts)
            sides.append(forwards)
            last.append(forwards[-1])
        if config.direction != "forward":
            backwards = read(kind(w, f"encoder.{layer}.backwards", width), h[::-1], parts)
            sides.append(backwards[::-1])
            last.append(backwards[-1])
        h = [torch.cat(states) for states in zip(*sides, strict=True)]
    first = w["decoder.first.weight"] @ torch.cat(last) + w["decoder.first.bias"]
    pieces = [first[place : place + size] for place in range(0, len(first), size)]
    layers = config.decoder_layers
    states = [(tanh(pieces[i]), *pieces[layers + i : layers + i + parts - 1]) for i in range(layers)]
    cells = [kind(w, f"decoder.cells.{i}", size) for i in range(layers)]
    fed, logits, alphas = torch.zeros(size, dtype=torch.float64), [], []
    for t, token in enumerate(target):
        x = w["target_embedding.weight"][token]
        if config.input_feeding:
            x = torch.cat([x, fed])
        for i, cell in enumerate(cells):
            states[i] = cell(x, states[i])
            x = states[i][0]
        if config.attention != "none":
            alpha, context, _ = attention(w, config, x, h, t)
            alphas.append(alpha)
            x = tanh(w["decoder.combine.weight"] @ torch.cat([context, x]))  # Luong et al., equation 5
        fed = x
        logits.append(w["output.weight"] @ x)
    return torch.stack(logits), alphas


# ------------------------------------------------------------------------ the same


def assert_is_the_reference(config: dict[str, Any]) -> None:
    model = make(**config)
    source, target = sentences(SOURCES), decoder_input(TARGETS)
    w = {name: weight.detach().clone().requires_grad_() for name, weight in model.named_parameters()}
    if model.config.tie != "none":
        w["output.weight"] = w["target_embedding.weight"]
    if model.config.tie == "all":
        w["source_embedding.weight"] = w["target_embedding.weight"]
    logits, alignment = model.logits(model(source, target)), model.alignment(source, target)
    mine, theirs = [], []
    for i, (longest, length) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected, alphas = reference(w, model.config, source[i, :longest].tolist(), target[i, :length].tolist())
        torch.testing.assert_close(logits[i, :length], expected, rtol=1e-10, atol=1e-10)
        for t, alpha in enumerate(alphas):
            of_tokens = torch.stack(alpha) / torch.stack(alpha).sum()
            torch.testing.assert_close(alignment[i, t, :longest], of_tokens, rtol=1e-9, atol=1e-12)
        weighted = torch.randn(expected.shape, dtype=torch.float64)
        mine.append((logits[i, :length] * weighted).sum())
        theirs.append((expected * weighted).sum())
    sum(mine).backward()  # type: ignore[union-attr]
    sum(theirs).backward()  # type: ignore[union-attr]
    with_gradient = 0
    for name, weight in model.named_parameters():
        expected = torch.zeros_like(weight) if w[name].grad is None else w[name].grad
        got = torch.zeros_like(weight) if weight.grad is None else weight.grad
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")
        with_gradient += bool(expected.abs().max() > 1e-6)
    assert with_gradient > len(w) / 2


@pytest.mark.parametrize(
    "changes",
    [
        *VARIANTS,
        {"encoder_layers": 3, "decoder_layers": 1, "cell": "gru"},
        {"encoder_layers": 1, "decoder_layers": 3, "attention": "none"},
        {"encoder_size": 5, "attention": "latent", "direction": "forward"},
        {"embedding_size": 6, "tie": "all", "cell": "gru"},
        {"attention_window": 1, "attention_span": "local-p"},
        {"attention_window": 1, "attention_span": "local-m", "attention": "location"},
    ],
    ids=name_of,
)
def test_a_model_is_its_equations(changes: dict[str, Any]) -> None:
    assert_is_the_reference(changes)


def test_what_is_sampled_has_the_probability_and_entropy_of_its_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    """local-p's weights do not sum to 1: a position is drawn in proportion to them."""
    for span, fed in itertools.product(("global", "local-m", "local-p"), (False, True)):
        model = make(attention_choice="hard", attention_span=span, input_feeding=fed)
        source, target = sentences([5]), decoder_input([1])
        w = dict(model.named_parameters())
        _, [alpha] = reference(w, model.config, source[0].tolist(), [BOS])
        p = torch.stack(alpha) / torch.stack(alpha).sum()
        model.train()
        for j in (j for j in range(5) if p[j] > 0):
            first = 10.0 ** -(torch.arange(5) == j).int().mul(30)  # the waiting time for j is the shortest
            monkeypatch.setattr(torch.Tensor, "exponential_", lambda noise, first=first: noise.copy_(first))
            sampled = model(source, target)
            torch.testing.assert_close(sampled.log_p[0, 0], p[j].log())
            entropy = -sum(each * each.log() for each in p if each > 0)
            torch.testing.assert_close(sampled.entropy[0, 0], entropy)
        monkeypatch.undo()


def test_gradients_of_scores_are_those_of_small_changes() -> None:
    torch.manual_seed(1)
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 4), (2, 5, 4), (4,))]
    assert torch.autograd.gradcheck(additive_scores, inputs)
