"""The vocabularies of M2M-100, SMaLL-100 and NLLB: one SentencePiece model for all languages, and the ids of its pieces
and of the tokens of languages.

In M2M-100 a file has the ids of the pieces, and the languages come after them. In NLLB a piece has its number in the
SentencePiece model plus one, behind four special subwords.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config.language_codes import matching
from nmt.config.language_pairs import LanguageTags
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.errors import NmtError
from nmt.interop import source, subwords
from nmt.interop.m2m100 import tokenizer_json
from nmt.interop.m2m100.subwords import Subwords
from nmt.interop.source import SourceSettings, shown
from nmt.interop.subwords import SubwordRows

_MODEL, _IDS, _ABOUT, _WHOLE = "sentencepiece.bpe.model", "vocab.json", "tokenizer_config.json", "tokenizer.json"
_SPECIAL = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}  # in NLLB
_FIRST = 3  # the first piece of a SentencePiece model that is not special
_ID = re.compile(r"[0-9]{1,9}")
_NON_COMMERCIAL = "NLLB's license is CC BY-NC 4.0: no commercial use of it, nor of what is trained from it"
# Of M2M-100, by which its tokens have their ids where no file says them.
_OF_M2M100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)


@dataclass(frozen=True)
class ModelFamily:
    """language_tags: as data.language_tags; token: what the tokens of languages look like, with the code as its group;
    license: under which the models are published; notes: what the user must know."""

    name: str
    language_tags: LanguageTags
    token: re.Pattern[str]
    license: str
    notes: Sequence[str] = ()

    @property
    def is_nllb(self) -> bool:
        return self.name == "NLLB"

    def our_token(self, code: str) -> str:
        """The name of a language's token here."""
        return f"<2{code}>" if self.language_tags == "target" else f"<{code}>"


_UNDERSCORES = re.compile(r"__([a-z]{2,3})__")
_M2M100 = ModelFamily("M2M-100", "sides", _UNDERSCORES, "mit")
_SMALL100 = ModelFamily("SMaLL-100", "target", _UNDERSCORES, "mit")
_NLLB = ModelFamily("NLLB", "sides", re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"), "cc-by-nc-4.0", (_NON_COMMERCIAL,))


def family_of(folder: Path) -> ModelFamily:
    """Which of them a folder holds, by its tokenizer. Raises NmtError if its files are missing."""
    about = source.read_mapping(folder / _ABOUT, optional=True)
    tokenizer = str(about.get("tokenizer_class", ""))
    if tokenizer.startswith("Nllb") or not (folder / _IDS).is_file():
        if about.get("legacy_behaviour"):
            raise NmtError(
                f"{folder / _ABOUT}: legacy_behaviour: true: cannot be imported: it puts languages behind text"
            )
        return _NLLB
    is_small = tokenizer == "SMALL100Tokenizer" or (folder / "tokenization_small100.py").exists()
    # SMaLL-100 has the files of M2M-100, and an encoder of 12 layers with a decoder of 3.
    config = source.read_mapping(folder / "config.json")
    is_small |= (config.get("encoder_layers"), config.get("decoder_layers")) == (12, 3)
    return _SMALL100 if is_small else _M2M100


def read(
    folder: Path, family: ModelFamily, config: SourceSettings, wanted: Sequence[str], lines: Iterable[str] | None
) -> tuple[Vocabulary, SubwordRows, list[str]]:
    """The vocabulary for the wanted languages, where its rows come from, and the codes of the languages. lines: text in
    these languages, of which the subwords are kept; None: all that the languages can need.

    Raises NmtError for languages that the model does not have, and for files that are missing or do not fit.
    """
    known, ids, file = _pieces(folder, family)
    size = config.number("vocab_size")
    languages = _languages(folder, family, ids, size)
    _check_ids(file, config, ids, languages)
    codes = _chosen(family, languages, wanted)
    names = {family_token: family.our_token(code) for code, (family_token, _) in languages.items() if code in codes}
    kept = known.of_languages(codes) if lines is None else known.of_text(lines, codes)
    theirs = {piece: i for piece, i in ids.items() if piece in kept or piece in _SPECIAL}
    theirs |= {token: i for token, i in languages.values() if token in names}
    cut = [piece for piece in known.pieces if piece in kept and piece not in ids]  # these have no row
    ordered = list(dict.fromkeys([*subwords.ordered(theirs, []), *cut]))
    made = subwords.tokenizer(known.proto, ordered, names, str(file))
    if max(theirs.values()) >= size:
        raise NmtError(
            f"{config.path}: vocab_size: {size}: the vocabulary has more subwords: they do not belong together"
        )
    return Vocabulary(made, made), subwords.rows_of(ordered, theirs), codes


def _pieces(folder: Path, family: ModelFamily) -> tuple[Subwords, dict[str, int], Path]:
    """The SentencePiece model, the ids of its pieces, and the file that has these."""
    if family.is_nllb and not (folder / _MODEL).is_file() and (folder / _WHOLE).is_file():
        proto, ids = tokenizer_json.read(folder / _WHOLE)
        return Subwords(proto), {**_SPECIAL, **ids}, folder / _WHOLE
    known = Subwords(subwords.read(folder / _MODEL))
    if not family.is_nllb:
        return known, source.read_vocabulary(folder / _IDS), folder / _IDS
    named = {piece: i for i, piece in enumerate(known.pieces[_FIRST:], start=len(_SPECIAL))}
    return known, {**_SPECIAL, **named}, folder / _MODEL


def _languages(folder: Path, family: ModelFamily, ids: Mapping[str, int], size: int) -> dict[str, tuple[str, int]]:
    """Of each language by its code: its token, and the id of that. size: rows of the matrix. Raises NmtError if no file
    says it.

    A token without an id in the files has the next one after the pieces. Beside tokens with ids, such as one that was
    added for another language, this holds only if no two have the same id."""
    named = {token: i for token, i in _named(folder) if family.token.fullmatch(token)}
    tokens = {token: i for token, i in named.items() if i is not None}
    listed = [token for token in named if token not in tokens]
    if not listed and not family.is_nllb:
        listed = [f"__{code}__" for code in _OF_M2M100.split()]
    after_pieces = {token: i for i, token in enumerate(listed, start=len(ids)) if token not in tokens}
    fit = len(ids) + len(listed) <= size and not set(after_pieces.values()) & set(tokens.values())
    if fit or not tokens:
        tokens = after_pieces | tokens
    matches = {token: family.token.fullmatch(token) for token in tokens}
    languages = {match[1]: (token, tokens[token]) for token, match in matches.items() if match}
    if not languages:
        raise NmtError(f"{folder}: no file names the tokens of its languages: give a folder that has tokenizer.json")
    return languages


def _named(folder: Path) -> Iterator[tuple[str, int | None]]:
    """The tokens that the files of a tokenizer name, first those without an id, then those with their ids."""
    about = source.read_mapping(folder / _ABOUT, optional=True)
    special = source.read_mapping(folder / "special_tokens_map.json", optional=True)
    whole = source.read_mapping(folder / _WHOLE, optional=True)
    lists = about.get("extra_special_tokens"), about.get("additional_special_tokens"), *special.values()
    for token in (token for tokens in lists if isinstance(tokens, list) for token in tokens):
        yield _content(token), None
    added = whole.get("added_tokens")
    with_ids: list[tuple[object, Any]] = [
        (token, i) for i, token in _mapping(about.get("added_tokens_decoder")).items()
    ]
    with_ids += [(token, _mapping(token).get("id")) for token in (added if isinstance(added, list) else [])]
    with_ids += source.read_mapping(folder / "added_tokens.json", optional=True).items()
    for token, number in with_ids:
        digits = number if isinstance(number, str) else repr(number) if isinstance(number, int) else ""
        if not _ID.fullmatch(digits):
            raise NmtError(f"{folder}: the id of {shown(token)} is {shown(number)}: a whole number is expected")
        yield _content(token), int(digits)


def _content(token: object) -> str:
    return str(_mapping(token).get("content", token))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _check_ids(
    file: Path, config: SourceSettings, ids: Mapping[str, int], languages: Mapping[str, tuple[str, int]]
) -> None:
    """Raises NmtError where files contradict each other. file: of the ids."""
    for piece in _SPECIAL:
        if piece not in ids:
            raise NmtError(f"{file}: has no subword {piece}: cannot be imported")
    for key, piece in {"pad_token_id": "<pad>", "eos_token_id": "</s>", "decoder_start_token_id": "</s>"}.items():
        if config.number(key, _SPECIAL[piece]) != ids[piece]:
            raise NmtError(
                f"{config.path}: {key}: {config.values[key]}: the id of {piece} is {ids[piece]} in {file.name}"
            )
    used = dict.fromkeys(ids.values())
    for token, number in languages.values():
        if number in used and ids.get(token) != number:
            raise NmtError(f"{file}: {number} is the id of a subword and of the language token {token}")
        if number >= config.number("vocab_size"):
            raise NmtError(f"{config.path}: vocab_size: {config.number('vocab_size')}: {token} has the id {number}")
        used[number] = None


def _chosen(family: ModelFamily, languages: Mapping[str, object], wanted: Sequence[str]) -> list[str]:
    """The codes, as the model has them, of the languages that the user wants. Raises NmtError for others, and for fewer
    than two."""
    known = list(languages)
    codes = list[str]()
    for code in wanted:
        meant = matching(code, known)
        if meant is None:
            near = [each for each in known if each.startswith(code[:2].lower())] or known
            such = ", ".join(near[:4])
            raise NmtError(f"--languages: {code}: {family.name} has {len(known)} languages, such as {such}")
        codes.append(meant)
    if len(set(codes)) < 2:
        raise NmtError(
            f"--languages: name at least two, such as --languages en,de: {family.name} has {len(known)}, and what the "
            "others need is left out"
        )
    return list(dict.fromkeys(codes))
