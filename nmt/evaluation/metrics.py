"""sacreBLEU's metrics, set up for a language."""

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.ter import TER


def bleu_metric(target_language: str, *, quiet: bool = False, sentences: bool = False) -> BLEU:
    """Case-sensitive BLEU with the tokenizer that sacreBLEU has for the language, 13a for most.

    Japanese and Korean are scored by characters where MeCab is not installed; the signature says which
    it was (`tok:`). `quiet` leaves out the warning about text that looks tokenized; `sentences`: for single ones,
    which may be too short for n-grams of every order.
    """
    language = _base(target_language)
    try:
        return BLEU(trg_lang=language, force=quiet, effective_order=sentences)
    except RuntimeError:  # the language's tokenizer needs a package that is not there
        return BLEU(tokenize="char", force=quiet, effective_order=sentences)


def ter_metric(target_language: str) -> TER:
    """TER by words; by characters in Chinese and Japanese, which do not part words."""
    unparted = _base(target_language) in ("zh", "ja")
    return TER(normalized=unparted, asian_support=unparted)


def _base(language: str) -> str:
    """`zh` of `zh-CN` or `zh_TW`."""
    return language.replace("_", "-").partition("-")[0].lower()
