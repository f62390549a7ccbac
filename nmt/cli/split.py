"""`nmt split`."""

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli import options, terminal
from nmt.files import text


@terminal.reporting()
def split(
    files: Annotated[list[Path], options.path_argument("FILES", "Source and target text, or one file of both sides.")],
    output: Annotated[Path, options.file("A new folder for the files.", metavar="FOLDER")],
    languages: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="SOURCE TARGET", help="Languages, and endings of the new files. Default: as the files say."
        ),
    ] = None,
    columns: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="SOURCE TARGET", help="For one file: names or numbers of its columns."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN|FILE",
            help="Keep documents together. The document of each pair: a column or, for two FILES, a file of lines.",
        ),
    ] = None,
    pairs: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Pairs for validation, and as many for the test. With --by: about N."),
    ] = 1000,
    most: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="At most N training pairs, drawn at random. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Another number gives other sets.")] = 1,
) -> None:
    """Split a corpus into training, validation and test sets that have no sentence in common.

    FILES are two text files with the same number of lines, or one .tsv, .csv, .jsonl, .tmx or .parquet file. FOLDER
    gets train, validation and test in both languages. Pairs that share a sentence, or are connected by such pairs, form
    a group and are in one set. From a group that is held out, one pair is used; the others are left out and counted.
    The same pairs give the same sets in any order.

    With --by, all pairs of a document are in one set, in their order. Documents are drawn for validation and test until
    each set has N pairs. A pair of these documents is left out and counted if it shares a sentence with another
    document, such as a footer. Pairs without a document are training pairs. FOLDER also gets train.documents and so
    on, with the document of each pair.

    Example: nmt split my.en my.de --output data/my

    Example: nmt split memory.tmx --by x-document --output data/my
    """
    if len(files) > 2:
        raise typer.BadParameter(f"at most two FILES, not {len(files)}")
    if columns is not None and len(files) == 2:
        raise typer.BadParameter("--columns is for one file of both sides")
    if columns is not None and columns[0] == columns[1]:
        raise typer.BadParameter(f"--columns {columns[0]} {columns[1]}: the source and the target are two columns")

    from nmt.commands import split as splitting

    splitting.split(files, output, languages, columns, by, pairs, most, seed)
    text.result(output)
