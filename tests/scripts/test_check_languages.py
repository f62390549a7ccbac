"""The tables over languages, on the sentences of eight languages that the project has."""

from pathlib import Path

from helpers.scripts import load


def test_kept(tmp_path: Path) -> None:
    """Translations are kept; of text in another language nearly nothing is, unless its language is not judged."""
    sentences = Path(__file__).parents[1] / "helpers" / "cleaning_sentences.tsv"
    rows = sentences.read_text(encoding="utf-8").rstrip("\n").split("\n")
    english, german, french = zip(*(row.split("\t")[:3] for row in rows[1:]), strict=True)
    for name, lines in {"eng": english, "deu": german, "fra": french, "nld": german, "nds": german}.items():
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = load("check_languages").kept(tmp_path, ["deu", "eng", "fra", "nds", "nld"])
    right, wrong = found[1:4], found[4]
    assert [(row[0], *row[2:4], row[5]) for row in right] == [
        (name, "100.00%", "100.00%", "") for name in ("deu", "fra", "nds")
    ]
    assert [row[6] for row in found[1:]] == ["", "", "language", ""]
    assert float(wrong[2].rstrip("%")) < 20 and wrong[5].startswith("language")


def test_boundaries_have_a_row_for_each_language(tmp_path: Path) -> None:
    (tmp_path / "eng.txt").write_text("The dog is here. It sleeps.\n" * 20, encoding="utf-8")
    rows = load("check_languages").boundaries(tmp_path, ["eng"])
    assert [row[0] for row in rows][1:] == ["eng"] and "100.0%" in rows[1]
