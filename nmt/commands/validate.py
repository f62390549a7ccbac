"""Scores a model in training with the search that users will run.

Training gets this as a function, and does not depend on search.
"""

import copy
from collections.abc import Sequence
from itertools import chain

import torch

from nmt.config.schema import Config, DecodingConfig
from nmt.data.cleaning.source_text import SourceText, as_set
from nmt.data.prepare import ValidationSet
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding.capitals import is_in_capitals
from nmt.decoding.confidence import CALIBRATION, fit
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translation, Translator
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.evaluation.metrics import ValidationMetrics, sentence_chrf
from nmt.evaluation.text_form import NORMALIZED
from nmt.loading import model_loader
from nmt.models.translation_model import TranslationModel
from nmt.training.data import Translated, TranslatedText, TranslationScores


class Validator:
    """Translates a validation set with a model and scores the translations. Several ranks share the work."""

    def __init__(
        self,
        held_out: ValidationSet,
        vocabulary: Vocabulary,
        config: Config,
        ranks: Ranks = Ranks(),  # noqa: B008 (frozen)
        source_text: SourceText | None = None,
    ):
        """The first training.validation_sentences pairs of the set are used. source_text: facts about the training
        text. Raises NmtError if decoding.long_input: error does not allow a pair to be translated."""
        pairs = held_out.pairs[: config.training.validation_sentences]
        self.held_out, self.vocabulary, self.config, self.ranks = held_out, vocabulary, config, ranks
        self.search, self.source_text = config.search, as_set(config, source_text)
        self.sources, self.references = [source for source, _ in pairs], [reference for _, reference in pairs]
        if self.search.long_input == "error":
            _check_lengths(self.sources, vocabulary, self.search)
        self.metrics = ValidationMetrics(held_out.languages.target)

    def engine(self, model: TranslationModel) -> PyTorchEngine:
        """The engine for a model on its device, with decoding.precision: model. If search needs another type than that
        of the weights, the engine has a converted copy of the model."""
        device, trained_in = next(model.parameters()).device, self.config.training.precision
        if model_loader.search_type("model", trained_in, device) != torch.float32:
            model = model_loader.prepare(copy.deepcopy(model), device, "model", trained_in)
        return PyTorchEngine([model], device)

    def score(self, engine: PyTorchEngine) -> tuple[TranslationScores, list[Translation]]:
        """Translate, and score the translations. The model and its train or eval mode do not change. Collective: all
        ranks get the same result."""
        config, languages = self.config, self.held_out.languages
        translator = Translator(engine, self.vocabulary, self.search, config.data.language_pairs, self.source_text)
        translator.languages.use(languages.target, languages.source)
        # Ranks take sentences in turn, so that each rank gets its share of long ones.
        share = translator.hypotheses(self.sources[self.ranks.rank :: self.ranks.size], token_scores=False)
        shares = self.ranks.all_gather([best for best, *_ in share])
        translations = [shares[i % self.ranks.size][i // self.ranks.size] for i in range(len(self.sources))]
        texts = [translation.text for translation in translations]
        scores = self.metrics.scores(texts, self.references)
        samples = list(zip(self.sources, self.references, texts, strict=True))[: config.training.validation_samples]
        text = TranslatedText(*languages, len(translations), NORMALIZED.compared)
        return TranslationScores(scores, samples, self.metrics.signatures(), text), translations


def _check_lengths(sources: Sequence[str], vocabulary: Vocabulary, search: DecodingConfig) -> None:
    """Raises NmtError for a source that is too long, because the first validation would end the training. Sources in
    capitals are not checked, because search converts them to lower case."""
    lengths = map(len, vocabulary.source.encode([source for source in sources if not is_in_capitals(source)]))
    if search.max_source_tokens is not None and (longest := max(lengths, default=0)) > search.max_source_tokens:
        raise NmtError(
            f"data.validation: a source has {longest} subwords, and decoding.long_input: error allows "
            f"{search.max_source_tokens} (decoding.max_source_tokens or data.max_length): set long_input to split, cut "
            "or skip"
        )


def score_all(validators: Sequence[Validator], engine: PyTorchEngine) -> Translated:
    """The scores of each validator, and a calibration by all translations together. Collective."""
    scored = [validator.score(engine) for validator in validators]
    translations = list(chain.from_iterable(translations for _, translations in scored))
    references = chain.from_iterable(validator.references for validator in validators)
    names = ", ".join(corpus.name_without_folders for corpus in validators[0].config.data.held_out)
    calibration = fit(names, translations, sentence_chrf([one.text for one in translations], references))
    entry = {} if calibration is None else {CALIBRATION: calibration.to_json()}
    return [scores for scores, _ in scored], entry
