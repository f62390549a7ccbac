"""sacreBLEU's metrics, set up for a language."""

import difflib
from pathlib import Path

from sacrebleu import utils
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER

from nmt.errors import NmtError


def bleu_metric(
    target_language: str, *, tokenizer: str | None = None, quiet: bool = False, sentences: bool = False
) -> BLEU:
    """Case-sensitive BLEU with this tokenizer of sacreBLEU's, or with the one it has for the language, 13a for most.

    Japanese and Korean are scored by characters where MeCab is not installed; the signature says which
    it was (`tok:`). `quiet` leaves out the warning about text that looks tokenized; `sentences`: for single ones,
    which may be too short for n-grams of every order.
    """
    if tokenizer is not None:
        return BLEU(tokenize=tokenizer, force=quiet or tokenizer == "none", effective_order=sentences)
    language = _base(target_language)
    try:
        return BLEU(trg_lang=language, force=quiet, effective_order=sentences)
    except RuntimeError:  # the language's tokenizer needs a package that is not there
        return BLEU(tokenize="char", force=quiet, effective_order=sentences)


def check_tokenizer(name: str) -> None:
    """Raises NmtError for a tokenizer that sacreBLEU does not know, or that lacks a package or its model here."""
    if name not in BLEU.TOKENIZERS:
        near = difflib.get_close_matches(name, BLEU.TOKENIZERS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(BLEU.TOKENIZERS)}"
        raise NmtError(f"--tokenize {name}: sacreBLEU knows no such tokenizer: {hint}")
    try:
        BLEU(tokenize=name)
    except OSError as error:
        raise NmtError(
            f"--tokenize {name}: its model cannot be had ({error}): sacreBLEU downloads it into "
            f"{Path(utils.SACREBLEU_DIR) / 'models'}: try again where the network allows it"
        ) from None
    except (RuntimeError, ImportError) as error:
        raise NmtError(f"--tokenize {name}: {' '.join(str(error).split())}") from None


def ter_metric(target_language: str) -> TER:
    """TER by words; by characters in Chinese and Japanese, which do not part words."""
    unparted = _base(target_language) in ("zh", "ja")
    return TER(normalized=unparted, asian_support=unparted)


def _base(language: str) -> str:
    """`zh` of `zh-CN` or `zh_TW`."""
    return language.replace("_", "-").partition("-")[0].lower()
