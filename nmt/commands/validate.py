"""BLEU and chrF of a model in training, by the search that users will run.

The trainer is given a `Validator` as a function; it knows nothing of search.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.chrf import CHRF

from nmt.config import reader
from nmt.config.schema import Config
from nmt.data import store_folder
from nmt.data.vocabulary import Vocabulary
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translator
from nmt.distributed.ranks import Ranks
from nmt.evaluation.metrics import bleu_metric
from nmt.models.interface import TranslationModel


def text_key(pairs: Sequence[tuple[str, str]] | None) -> str:
    """A key of the validation text: the same for the same pairs, wherever they were read."""
    return store_folder.content_key(pairs, [])


def validation_key(pairs: Sequence[tuple[str, str]] | None, config: Config) -> str:
    """A key of everything that training.best_metric is measured by: scores with different keys do not compare.

    It begins with the `text_key`; where the metric comes from a search, the key of the search's settings follows.
    """
    if config.training.best_metric == "validation_loss":
        return text_key(pairs)
    search = [reader.to_dict(config.decoding), config.training.validation_sentences]
    return f"{text_key(pairs)}-{store_folder.content_key(search)}"


def is_validated_on(key: str, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether a recorded `validation_key` is of this text, by whatever search."""
    return key.partition("-")[0] == text_key(pairs)


@dataclass(frozen=True)
class ValidationScores:
    """Scores of the translated validation set; samples are (source, reference, translation).

    signatures: sacreBLEU's, by the score's name.
    """

    bleu: float
    chrf: float
    samples: list[tuple[str, str, str]]
    signatures: dict[str, str]


class Validator:
    """Translates the validation set with a model and scores it; several ranks share the work."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        pairs: Sequence[tuple[str, str]],
        config: Config,
        ranks: Ranks = Ranks(),  # noqa: B008 (frozen)
    ):
        """Pairs of raw text, source and reference: the first training.validation_sentences of them are used."""
        pairs = pairs[: config.training.validation_sentences]
        self.vocabulary, self.config, self.ranks = vocabulary, config, ranks
        self.sources, self.references = [source for source, _ in pairs], [reference for _, reference in pairs]
        # Quiet: a warning about tokenized text at each validation would say nothing new.
        self.bleu, self.chrf = bleu_metric(config.data.target_language, quiet=True), CHRF()

    def __call__(self, model: TranslationModel) -> ValidationScores:
        """Search with config.search on the device that the model is on; its train or eval mode stays.

        Collective, with one result for all ranks.
        """
        device = next(model.parameters()).device
        engine = PyTorchEngine([model], device, self.config.training.precision)
        translator = Translator(engine, self.vocabulary, self.config.search)
        # Every so-manieth sentence is a rank's, so that each has its share of the long ones.
        shares = self.ranks.all_gather(translator.translate(self.sources[self.ranks.rank :: self.ranks.size]))
        translations = [shares[i % self.ranks.size][i // self.ranks.size] for i in range(len(self.sources))]
        bleu = self.bleu.corpus_score(translations, [self.references])
        chrf = self.chrf.corpus_score(translations, [self.references])
        shown = self.config.training.validation_samples
        samples = list(zip(self.sources, self.references, translations, strict=True))[:shown]
        metrics = {"bleu": self.bleu, "chrf": self.chrf}
        signatures = {name: str(metric.get_signature()) for name, metric in metrics.items()}
        return ValidationScores(bleu.score, chrf.score, samples, signatures)
