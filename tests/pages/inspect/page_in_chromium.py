"""The page of `nmt inspect` in headless Chromium, opened from disk: `scripts/test_page.sh`."""

import json
import time
from pathlib import Path

import pytest
from helpers.chromium import WIDTHS, Browser, accessibility_faults, contrast
from helpers.inspection_models import RECURRENT, SENTENCES, inspector_of, labels, new_checkpoint

from nmt.pages.inspect.inspect import Inspection, attention_by_word
from nmt.pages.inspect.output_folder import page

FROM, TO = "#from button", "#to button"


def inspection(source: str = "en", target: str = "de") -> Inspection:
    return inspector_of(new_checkpoint(source, target)).inspect(SENTENCES[source], SENTENCES[target])


def show(window: Browser, folder: Path, seen: Inspection, width: int = 1200, dark: bool = False) -> None:
    """Write the page and open it."""
    file = folder / "index.html"
    file.write_text(page(seen), encoding="utf-8")
    window.open(file.as_uri(), "#lines path" if seen.inside.attention else "#tree path", width, dark)


def choose(window: Browser, select: str, value: str) -> None:
    window.js(f"""
      const select = document.getElementById({json.dumps(select)}); select.value = {json.dumps(value)};
      select.dispatchEvent(new Event('change'))""")


def pick(window: Browser, selector: str, index: int) -> None:
    window.js(f"document.querySelectorAll('{selector}')[{index}].click()")


def beside(window: Browser, selector: str) -> list[str]:
    """The shares that are shown beside the words."""
    return window.texts(f"{selector} small")


def percent(share: float) -> str:
    return f"{100 * share:.{1 if share < 0.0995 else 0}f} %"


def near(shown: list[str], shares: list[float]) -> None:
    """The page's numbers have four digits, and it rounds what it shows."""
    assert [float(text.removesuffix(" %")) for text in shown] == pytest.approx([100 * s for s in shares], abs=0.51)
    assert all(text.endswith(" %") for text in shown)


def test_picking_a_word(browser: Browser, tmp_path: Path) -> None:
    seen = inspection()
    words, weights = seen.source.words, seen.inside.attention["encoder"]
    show(browser, tmp_path, seen)
    assert browser.texts("#from bdi") == browser.texts("#to bdi") == [word.text for word in words]
    choose(browser, "layer", "1")
    choose(browser, "head", "2")
    it = [word.text for word in words].index("it")
    assert set(beside(browser, TO)) == {""}
    pick(browser, FROM, it)
    shares = attention_by_word(weights[1, 2], words, words)[it].tolist()
    near(beside(browser, TO), shares)
    assert browser.js(f"return document.querySelectorAll('{FROM}')[{it}].ariaPressed") == "true"
    assert len(browser.texts("#from button[aria-pressed=true]")) == 1
    assert browser.js("return document.querySelectorAll('#lines path').length") == sum(s >= 0.02 for s in shares)
    colours = browser.js(
        f"return Array.from(document.querySelectorAll('{TO}'), e => getComputedStyle(e).backgroundColor)"
    )
    opacities = [float(colour.rstrip(")").replace("/", ",").split(",")[-1]) for colour in colours]
    assert max(range(len(words)), key=opacities.__getitem__) == max(range(len(words)), key=shares.__getitem__)
    best = sorted(zip(shares, words, strict=True), key=lambda pair: -pair[0])[0][1].text
    assert browser.texts("#says")[0].startswith(f"“it” attends to “{best}”")
    assert browser.texts("#heat tr.picked th") == ["it"]
    browser.js("document.getElementById('attention').scrollIntoView()")
    browser.shot("inspect-picked")
    pick(browser, FROM, it)  # again: no longer
    assert set(beside(browser, TO)) == {""}
    pick(browser, TO, it)
    near(beside(browser, FROM), attention_by_word(weights[1, 2], words, words)[:, it].tolist())
    assert browser.texts("#says")[0].startswith("“it” gets attention from")


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_kinds_layers_heads_and_means(browser: Browser, tmp_path: Path, kind: str) -> None:
    seen = inspection()
    weights = seen.inside.attention[kind]
    show(browser, tmp_path, seen)
    choose(browser, "kind", kind)
    choose(browser, "unit", "subwords")
    rows, columns = labels(seen, kind)
    assert (browser.texts("#from bdi"), browser.texts("#to bdi")) == (rows, columns)
    row = len(rows) - 3
    for layer, head, expected in (
        ("0", "3", weights[0, 3]), ("1", "mean", weights[1].mean(0)), ("mean", "0", weights[:, 0].mean(0)),
        ("mean", "mean", weights.mean((0, 1))),
    ):  # fmt: skip
        choose(browser, "layer", layer)
        choose(browser, "head", head)
        if (layer, head) == ("0", "3"):
            pick(browser, FROM, row)
        near(beside(browser, TO), expected[row].tolist())
    browser.js("document.querySelectorAll('#heads button')[5].click()")  # layer 2, head 2
    near(beside(browser, TO), weights[1, 1, row].tolist())
    assert (
        browser.js("return document.querySelector('#heads button[aria-pressed=true]').ariaLabel") == "layer 2, head 2"
    )
    choose(browser, "unit", "words")
    assert len(browser.texts("#from bdi")) == len((seen.source if kind == "encoder" else seen.target).words)
    if kind == "decoder":
        assert browser.texts("#to bdi") == ["<s>", *(word.text for word in seen.target.words[:-1])]


def test_alignment_and_beam(browser: Browser, tmp_path: Path) -> None:
    seen = inspection()
    show(browser, tmp_path, seen)
    assert browser.texts("#align-target li") == [word.text for word in seen.target.words[:-1]]
    rows = browser.texts("#align-table tbody tr")
    shares = seen.alignment[0, :-1].tolist()
    best = max(range(len(shares)), key=shares.__getitem__)
    assert rows[0].startswith(f"{seen.target.words[0].text}{seen.source.words[best].text} ")
    assert browser.js("return document.querySelectorAll('#align-lines path').length") == int(
        (seen.alignment[:-1, :-1].mul(1e4).round().div(1e4) >= 0.05).sum()
    )
    assert [text.endswith(one.text) for text, one in zip(browser.texts("#best tbody tr"), seen.hypotheses, strict=True)]
    nodes = browser.js("return document.querySelectorAll('#tree g[data-place]').length")
    assert nodes == len(seen.nodes)
    second = next(place for place, rank in seen.ranks.items() if rank == 1)
    browser.js("document.querySelectorAll('#best tbody button')[1].click()")
    assert browser.js("return document.querySelectorAll('#tree g.lit').length") == seen.nodes[second].step
    assert browser.texts("#path")[0].startswith(" ".join(seen.hypotheses[1].pieces))
    assert f"score {seen.hypotheses[1].score:.3f}" in browser.texts("#path")[0]
    wide = "const of = document.getElementById('tree').parentElement; return [of.scrollWidth, of.clientWidth]"
    needs, room = browser.js(wide)
    assert needs <= room and max(node.step for node in seen.nodes) > 8, "as wide as the page, however long"
    browser.click("#dropped")
    left = browser.js("return document.querySelectorAll('#tree g[data-place]').length")
    assert left == sum(node.fate != "dropped" for node in seen.nodes)
    browser.js("document.getElementById('tree').scrollIntoView()")
    browser.shot("inspect-beam")


def visible(window: Browser, id: str) -> bool:
    return bool(window.js(f"return document.getElementById('{id}').checkVisibility()"))


def test_where_local_and_hard_attention_look(browser: Browser, tmp_path: Path) -> None:
    of = {"attention_span": "local-p", "attention_window": 3, "attention_choice": "hard"}
    seen = inspector_of(new_checkpoint(of=RECURRENT, **of)).inspect(SENTENCES["en"], SENTENCES["de"])
    centers, chosen = seen.inside.centers, seen.inside.chosen
    assert centers is not None and chosen is not None
    show(browser, tmp_path, seen)
    assert browser.texts("#kind option") == ["cross-attention"]
    for id, there in {"every": False, "layer": False, "head": False, "encodings": False, "aligned": True}.items():
        assert visible(browser, id) == there, id
    assert browser.texts("#missing") == [seen.inside.missing]
    assert "concat" not in browser.texts("#alignment-note")[0] and "hard" in browser.texts("#alignment-note")[0]
    assert "p ± 3" in browser.texts("#marks")[0] and "is read" in browser.texts("#marks")[0]
    choose(browser, "unit", "subwords")
    last = len(seen.source.pieces) - 1
    expected = {
        "center": [[min(last, round(p)) == x for x in range(last + 1)] for p in centers.tolist()],
        "near": [[abs(x - p) <= 3 for x in range(last + 1)] for p in centers.tolist()],
        "read": [[x == place for x in range(last + 1)] for place in chosen.tolist()],
    }
    for mark, cells in expected.items():
        shown = browser.js(
            "return Array.from(document.querySelectorAll('#heat tbody tr'), row => "
            f"Array.from(row.querySelectorAll('td'), cell => cell.classList.contains('{mark}')))"
        )
        assert shown == cells, mark
    near([browser.texts("#heat tbody td .unseen")[int(chosen[0])].split(",")[0]],
         [float(seen.inside.attention["cross"][0, 0, 0, chosen[0]])])  # fmt: skip
    browser.js("document.getElementById('heat-title').scrollIntoView()")
    browser.shot("inspect-local")


def test_a_model_without_attention_shows_its_beam(browser: Browser, tmp_path: Path) -> None:
    seen = inspector_of(new_checkpoint(of=RECURRENT, attention="none", input_feeding=False)).inspect(SENTENCES["en"])
    show(browser, tmp_path, seen)
    for id in ("attention", "aligned", "encodings"):
        assert not visible(browser, id)
    assert "has no attention at all" in browser.texts("#missing")[0]
    before = browser.js("return document.querySelectorAll('#tree g[data-place]').length")
    assert before == len(seen.nodes)
    browser.click("#dropped")
    assert browser.js("return document.querySelectorAll('#tree g[data-place]').length") < before
    browser.js("scrollTo(0, 0)")
    browser.shot("inspect-no-attention")


@pytest.mark.parametrize(
    ("pair", "width", "dark"),
    [(("en", "de"), "phone", True), (("ar", "ja"), "desktop", True), (("zh", "he"), "phone", False)],
)
def test_all_scripts_at_all_widths(
    browser: Browser, tmp_path: Path, pair: tuple[str, str], width: str, dark: bool
) -> None:
    show(browser, tmp_path, inspection(*pair), WIDTHS[width], dark)
    assert browser.js("return document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    assert accessibility_faults(browser) == []
    right_to_left = {"ar", "he"}
    for id, code in zip(("source", "target"), pair, strict=True):
        expected = "rtl" if code in right_to_left else "ltr"
        for element in (f"{id}", f"align-{id}"):
            assert browser.js(f"return getComputedStyle(document.getElementById('{element}')).direction") == expected
    choose(browser, "kind", "cross")
    pick(browser, FROM, 2)
    browser.js("scrollTo(0, 0)")
    browser.shot(f"inspect-{'-'.join(pair)}-{width}-{'dark' if dark else 'light'}")
    browser.js("document.getElementById('alignment-title').scrollIntoView()")
    browser.shot(f"inspect-{'-'.join(pair)}-{width}-{'dark' if dark else 'light'}-below")


def test_it_can_be_used_and_read_by_all(browser: Browser, tmp_path: Path) -> None:
    """Every control has the name that can be seen; text stands out from its ground (WCAG AA)."""
    for dark in (False, True):
        show(browser, tmp_path, inspection(), dark=dark)
        assert accessibility_faults(browser) == []
        for selector in (
            "#scores",
            "#says",
            FROM,
            "#heat th",
            "#best td",
            ".key.dropped",
            "summary",
            "#heads span + span",
        ):
            assert contrast(browser, selector) >= 4.5, (selector, dark)


def test_nothing_is_asked_of_others_and_nothing_complains(browser: Browser) -> None:
    """After all the tests above."""
    time.sleep(0.2)
    # The first window of the browser asks for chrome: pages of its own, with data: in them.
    elsewhere = [url for url in browser.requested() if not url.startswith(("chrome", "data:"))]
    assert elsewhere and all(url.startswith("file:") and url.endswith("/index.html") for url in elsewhere)
    assert [entry["message"] for entry in browser.log("browser")] == []
