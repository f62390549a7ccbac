"""Exported Bergamot models in their own engine, under Node.js: `scripts/test_page.sh`."""

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.bergamot_engine import BergamotFolder
from helpers.equivalence import random_lines
from helpers.export_models import LINES, engine_of, make_model, random_shortlist, written
from helpers.other_models import marian_npz, text
from helpers.scripts import load
from interop.bergamot.test_bergamot import VARIANTS

from nmt.checkpoints import model_file
from nmt.commands.imports import import_model
from nmt.config.schema import DecodingConfig
from nmt.data.subwords.vocabulary import BOS, PAD, UNK
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.options import SearchOptions
from nmt.interop.bergamot.export import BergamotExporter
from nmt.interop.exporter import ExportOptions


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant[-1])
def test_the_engine_translates_as_the_folder_is_computed_here(variant: tuple[str, ...], tmp_path: Path) -> None:
    """Every line: sums of products of integers are exact, and a random model has few close choices."""
    script = load("bergamot_parity")
    made = make_model(*variant)
    lines = [line for line in [*LINES, *random_lines(made.vocabulary.source)] if line]
    BergamotExporter().write(tmp_path, made, ExportOptions("int8", lines))
    found = script.translate_by_bergamot(tmp_path, lines)
    expected = script.translate_by_nmt(BergamotFolder(tmp_path, made), made, lines)
    # Where a text ends in a space, the engine's SentencePiece, which is older, leaves it there or not.
    assert [text.strip() for text in found] == [text.strip() for text in expected]
    assert len(set(found)) > 3


@pytest.mark.parametrize("variant", VARIANTS[:2], ids=["one vocabulary", "two vocabularies"])
def test_the_engine_writes_the_best_of_its_shortlist(variant: tuple[str, ...], tmp_path: Path) -> None:
    script, plain = load("bergamot_parity"), make_model(*variant)
    made = replace(plain, shortlist=random_shortlist(plain.vocabulary, 12))
    lines = [line for line in [*LINES, *random_lines(made.vocabulary.source)] if line]
    BergamotExporter().write(tmp_path, made, ExportOptions("int8", lines))
    engine, found = BergamotFolder(tmp_path, made), list[str]()
    for source in made.vocabulary.source.encode(lines):
        assert made.shortlist is not None
        allowed = made.shortlist.allowed(source).tolist()
        if made.vocabulary.shared:
            allowed = sorted({*allowed, *source})
        missing = [i for i in range(len(made.vocabulary.target)) if i not in allowed]
        spare = -len(allowed) % 8  # the engine computes a multiple of 8
        options = SearchOptions(DecodingConfig(beam_size=1), never=(PAD, UNK, BOS, *missing[spare:]))
        [[best]] = engine.search([SearchInput(source, 2 * (len(source) + 1))], options, 1000)
        found += made.vocabulary.target.decode([best.tokens])
    expected = script.translate_by_bergamot(tmp_path, lines)
    assert [text.strip() for text in found] == [text.strip() for text in expected]
    (tmp_path / "lex.ende.s2t.bin").unlink()
    assert script.translate_by_bergamot(tmp_path, lines) != expected


def test_rounding_is_what_differs_from_the_model(tmp_path: Path) -> None:
    script = load("bergamot_parity")
    made = make_model(*VARIANTS[0])
    written(BergamotExporter(), tmp_path, made)
    lines = [line for line in LINES if line]
    engine, model = script.translate_by_bergamot(tmp_path, lines), script.translate_by_nmt(engine_of(made), made, lines)
    assert sum(one == other for one, other in zip(engine, model, strict=True)) >= len(lines) / 2


@pytest.mark.parametrize("variant", VARIANTS[:2], ids=["one vocabulary", "two vocabularies"])
def test_the_example_in_the_model_card_works(variant: tuple[str, ...], tmp_path: Path) -> None:
    made = make_model(*variant)
    written(BergamotExporter(), tmp_path, made)
    [example] = re.findall("```js\n(.*?)```", (tmp_path / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    page = f"""
        import {{ readFileSync }} from 'node:fs';
        globalThis.fetch = async (name) => new Response(readFileSync('{tmp_path}/' + name));
        {example}
        process.exit();
    """
    node = ["node", "--input-type=module", "-"]
    found = subprocess.run(node, input=page, cwd=os.environ["BERGAMOT"], capture_output=True, text=True, check=False)
    [expected] = load("bergamot_parity").translate_by_bergamot(tmp_path, ["A sentence."])
    assert (found.stderr, found.stdout.strip()) == ("", expected.strip())


def test_a_model_that_marian_has_trained_comes_to_the_engine(tmp_path: Path) -> None:
    """Outputs of these random weights repeat themselves up to the longest length: some choices are close."""
    (tmp_path / "marian").mkdir()
    source = marian_npz(tmp_path / "marian", spm=True, **{"dim-emb": 64, "transformer-dim-ffn": 128})
    import_model(str(source), tmp_path / "imported.safetensors", ["en", "de"])
    made = model_file.load(tmp_path / "imported.safetensors")
    lines = [line for line in text(5, 40) if line.strip()]
    (tmp_path / "out").mkdir()
    BergamotExporter().write(tmp_path / "out", made, ExportOptions("int8", lines))
    script = load("bergamot_parity")
    found = script.translate_by_bergamot(tmp_path / "out", lines)
    expected = script.translate_by_nmt(BergamotFolder(tmp_path / "out", made), made, lines)
    assert sum(one == other for one, other in zip(found, expected, strict=True)) >= 0.8 * len(lines)
