"""The vocabularies of M2M-100, SMaLL-100 and NLLB: one SentencePiece model for all languages, and the ids of its pieces
and of the tokens of languages.

In M2M-100 a file has the ids of the pieces, and the languages come after them. In NLLB the id of a piece is its id in
the SentencePiece model plus one, after four special subwords.
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
_NON_COMMERCIAL = "NLLB's license is CC BY-NC 4.0: it and models trained from it may not be used commercially"
# The languages of M2M-100 in the order of their ids, which is used if no file has the ids.
_M2M100_CODES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)


@dataclass(frozen=True)
class ModelFamily:
    """A family of models that have their vocabularies in the same form.

    language_tags: as data.language_tags; token: matches the tokens of languages, with the code as its group; license:
    of the published models; notes: sentences for the user.
    """

    name: str
    language_tags: LanguageTags
    token: re.Pattern[str]
    license: str
    notes: Sequence[str] = ()

    @property
    def is_nllb(self) -> bool:
        return self.name == "NLLB"

    def nmt_token(self, code: str) -> str:
        """nmt's name of a language's token."""
        return f"<2{code}>" if self.language_tags == "target" else f"<{code}>"


_UNDERSCORES = re.compile(r"__([a-z]{2,3})__")
_M2M100 = ModelFamily("M2M-100", "sides", _UNDERSCORES, "mit")
_SMALL100 = ModelFamily("SMaLL-100", "target", _UNDERSCORES, "mit")
_NLLB = ModelFamily("NLLB", "sides", re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"), "cc-by-nc-4.0", (_NON_COMMERCIAL,))


def family_of(folder: Path) -> ModelFamily:
    """The family of the model in a folder, from its tokenizer. Raises NmtError if files are missing."""
    about = source.read_mapping(folder / _ABOUT, optional=True)
    tokenizer = str(about.get("tokenizer_class", ""))
    if tokenizer.startswith("Nllb") or not (folder / _IDS).is_file():
        if about.get("legacy_behaviour"):
            raise NmtError(
                f"{folder / _ABOUT}: legacy_behaviour: true: cannot be imported: it puts language tokens after the text"
            )
        return _NLLB
    is_small = tokenizer == "SMALL100Tokenizer" or (folder / "tokenization_small100.py").exists()
    # SMaLL-100 has the files of M2M-100, and an encoder of 12 layers with a decoder of 3.
    config = source.read_mapping(folder / "config.json")
    is_small |= (config.get("encoder_layers"), config.get("decoder_layers")) == (12, 3)
    return _SMALL100 if is_small else _M2M100


def read(
    folder: Path, family: ModelFamily, config: SourceSettings, requested: Sequence[str], lines: Iterable[str] | None
) -> tuple[Vocabulary, SubwordRows, list[str]]:
    """The vocabulary for the requested languages, its rows in the model, and the codes of the languages.

    lines: text in these languages, whose subwords are kept; None keeps all subwords that the languages can need. Raises
    NmtError for languages that the model does not have, and for files that are missing or do not belong together.
    """
    model_subwords, ids, file = _pieces(folder, family)
    size = config.number("vocab_size")
    languages = _languages(folder, family, ids, size)
    _check_ids(file, config, ids, languages)
    codes = _requested_codes(family, languages, requested)
    names = {family_token: family.nmt_token(code) for code, (family_token, _) in languages.items() if code in codes}
    kept = model_subwords.for_languages(codes) if lines is None else model_subwords.for_text(lines, codes)
    kept_ids = {piece: i for piece, i in ids.items() if piece in kept or piece in _SPECIAL}
    kept_ids |= {token: i for token, i in languages.values() if token in names}
    cut = [piece for piece in model_subwords.pieces if piece in kept and piece not in ids]  # without a row in the model
    pieces = list(dict.fromkeys([*subwords.ordered(kept_ids, []), *cut]))
    tokenizer = subwords.tokenizer(model_subwords.proto, pieces, names, str(file))
    if max(kept_ids.values()) >= size:
        raise NmtError(
            f"{config.path}: vocab_size: {size}: the vocabulary has more subwords: they do not belong together"
        )
    return Vocabulary(tokenizer, tokenizer), subwords.rows_of(pieces, kept_ids), codes


def _pieces(folder: Path, family: ModelFamily) -> tuple[Subwords, dict[str, int], Path]:
    """The SentencePiece model, the ids of its pieces, and the file that has the ids."""
    if family.is_nllb and not (folder / _MODEL).is_file() and (folder / _WHOLE).is_file():
        proto, ids = tokenizer_json.read(folder / _WHOLE)
        return Subwords(proto), {**_SPECIAL, **ids}, folder / _WHOLE
    model_subwords = Subwords(subwords.read(folder / _MODEL))
    if not family.is_nllb:
        return model_subwords, source.read_vocabulary(folder / _IDS), folder / _IDS
    ids = {piece: i for i, piece in enumerate(model_subwords.pieces[_FIRST:], start=len(_SPECIAL))}
    return model_subwords, {**_SPECIAL, **ids}, folder / _MODEL


def _languages(folder: Path, family: ModelFamily, ids: Mapping[str, int], size: int) -> dict[str, tuple[str, int]]:
    """The token of each language and its id, by the language's code. size: rows of the matrix.

    Tokens without an id in the files get the ids after the pieces. If other tokens have ids, such as the token of a
    language that was added, this is only done if no two tokens get the same id. Raises NmtError if there is no token.
    """
    named = {token: i for token, i in _named_tokens(folder) if family.token.fullmatch(token)}
    tokens = {token: i for token, i in named.items() if i is not None}
    listed = [token for token in named if token not in tokens]
    if not listed and not family.is_nllb:
        listed = [f"__{code}__" for code in _M2M100_CODES.split()]
    after_pieces = {token: i for i, token in enumerate(listed, start=len(ids)) if token not in tokens}
    fit = len(ids) + len(listed) <= size and not set(after_pieces.values()) & set(tokens.values())
    if fit or not tokens:
        tokens = after_pieces | tokens
    matches = {token: family.token.fullmatch(token) for token in tokens}
    languages = {match[1]: (token, tokens[token]) for token, match in matches.items() if match}
    if not languages:
        raise NmtError(f"{folder}: no file names the tokens of its languages: give a folder that has tokenizer.json")
    return languages


def _named_tokens(folder: Path) -> Iterator[tuple[str, int | None]]:
    """The tokens in the files of a tokenizer: first those without an id, then those with their ids."""
    about = source.read_mapping(folder / _ABOUT, optional=True)
    special = source.read_mapping(folder / "special_tokens_map.json", optional=True)
    whole = source.read_mapping(folder / _WHOLE, optional=True)
    lists = about.get("extra_special_tokens"), about.get("additional_special_tokens"), *special.values()
    for tokens in lists:
        if isinstance(tokens, list):
            yield from ((_content(token), None) for token in tokens)
    added = whole.get("added_tokens")
    with_ids: list[tuple[object, Any]] = [
        (token, token_id) for token_id, token in _mapping(about.get("added_tokens_decoder")).items()
    ]
    with_ids += [(token, _mapping(token).get("id")) for token in (added if isinstance(added, list) else [])]
    with_ids += source.read_mapping(folder / "added_tokens.json", optional=True).items()
    for token, token_id in with_ids:
        digits = token_id if isinstance(token_id, str) else repr(token_id) if isinstance(token_id, int) else ""
        if not _ID.fullmatch(digits):
            raise NmtError(f"{folder}: the id of {shown(token)} is {shown(token_id)}: a whole number is expected")
        yield _content(token), int(digits)


def _content(token: object) -> str:
    return str(_mapping(token).get("content", token))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _check_ids(
    file: Path, config: SourceSettings, ids: Mapping[str, int], languages: Mapping[str, tuple[str, int]]
) -> None:
    """Raises NmtError if files contradict each other. file: of the ids."""
    for piece in _SPECIAL:
        if piece not in ids:
            raise NmtError(f"{file}: has no subword {piece}: cannot be imported")
    for key, piece in {"pad_token_id": "<pad>", "eos_token_id": "</s>", "decoder_start_token_id": "</s>"}.items():
        if config.number(key, _SPECIAL[piece]) != ids[piece]:
            raise NmtError(
                f"{config.path}: {key}: {config.values[key]}: the id of {piece} is {ids[piece]} in {file.name}"
            )
    used = dict.fromkeys(ids.values())
    for token, token_id in languages.values():
        if token_id in used and ids.get(token) != token_id:
            raise NmtError(f"{file}: {token_id} is the id of a subword and of the language token {token}")
        if token_id >= config.number("vocab_size"):
            raise NmtError(f"{config.path}: vocab_size: {config.number('vocab_size')}: {token} has the id {token_id}")
        used[token_id] = None


def _requested_codes(family: ModelFamily, languages: Mapping[str, object], requested: Sequence[str]) -> list[str]:
    """The model's codes of the requested languages. Raises NmtError for unknown languages, and for fewer than two."""
    names = list(languages)
    codes = list[str]()
    for code in requested:
        name = matching(code, names)
        if name is None:
            near_first = sorted(names, key=lambda other: (not other.startswith(code[:2].lower()), other))
            raise NmtError(
                f"--languages: {code}: {family.name} has {len(names)} languages: {', '.join(near_first)}; to teach "
                "a new one, name a related one (docs/low-resource.md)"
            )
        codes.append(name)
    if len(set(codes)) < 2:
        raise NmtError(
            f"--languages: name at least two, such as --languages en,de: {family.name} has {len(names)}, and only the "
            "named ones are imported"
        )
    return list(dict.fromkeys(codes))
