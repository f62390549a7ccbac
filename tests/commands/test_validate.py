"""Validation by search: the same translations and scores as the parts give one by one."""

import itertools
from dataclasses import replace
from statistics import fmean

import pytest
import sacrebleu
import torch

from nmt.commands.validate import Validator, score_all
from nmt.config import schema
from nmt.config.language_pairs import LanguagePair
from nmt.data.prepare import ValidationSet
from nmt.data.subwords import vocabulary as vocabularies
from nmt.data.subwords.normalization import comparable
from nmt.data.subwords.vocabulary import PAD, Vocabulary
from nmt.decoding.confidence import Calibration
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.evaluation.metrics import sentence_chrf
from nmt.models.transformer.model import Transformer

WORDS = ["one", "two", "three", "four", "apples", "pears", "in", "the", "old", "red", "barn"]
TEXT = "run_dir: r\ndata: {source_language: en, target_language: de, train: [{source: a, target: b}]}\n"
CONFIG = replace(
    schema.parse(TEXT, "test"),
    model=schema.TransformerConfig(d_model=16, feed_forward=32, layers=1, heads=2, dropout=0.3),
    decoding=schema.DecodingConfig(beam_size=2, max_extra_tokens=4),
)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    sentences = [" ".join(pair) for pair in itertools.permutations(WORDS, 2)]
    tokenizer = vocabularies.learn(sentences, schema.VocabularyConfig(size=310))
    return Vocabulary(tokenizer, tokenizer)


@pytest.fixture
def model(vocabulary: Vocabulary) -> Transformer:
    torch.manual_seed(1)
    return Transformer(CONFIG.model, len(vocabulary.source), len(vocabulary.target), PAD).train()


def translator_of(model: Transformer, vocabulary: Vocabulary) -> Translator:
    return Translator(PyTorchEngine([model], torch.device("cpu")), vocabulary, CONFIG.decoding)


def held_out(pairs: list[tuple[str, str]]) -> ValidationSet:
    """As much of a set as a validator needs."""
    return ValidationSet("en-de", LanguagePair("en", "de"), (), pairs, ids=None)  # type: ignore[arg-type]


def pairs_of(model: Transformer, vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Sources with references that the model meets in part: half of its own words in each."""
    sources = [" ".join(WORDS[i : i + 4]) for i in range(8)]
    translations = translator_of(model, vocabulary).translate(sources)
    references = [" ".join([*text.split()[: 1 + len(text.split()) // 2], "old", "barn"]) for text in translations]
    return list(zip(sources, references, strict=True))


@pytest.mark.parametrize("sentences", [None, 5])
def test_scores_the_translations(model: Transformer, vocabulary: Vocabulary, sentences: int | None) -> None:
    pairs = pairs_of(model, vocabulary)
    training = replace(CONFIG.training, validation_sentences=sentences, validation_samples=2)
    validator = Validator(held_out(pairs), vocabulary, replace(CONFIG, training=training))
    scores, translated = validator.score(validator.engine(model))
    sources, references = ([pair[side] for pair in pairs[:sentences]] for side in (0, 1))
    translations = translator_of(model, vocabulary).translate(sources)
    assert [one.text for one in translated] == translations
    compared = [list(map(comparable, text)) for text in (translations, references)]
    assert scores.scores["bleu"] == sacrebleu.corpus_bleu(compared[0], compared[1:]).score
    assert scores.scores["chrf"] == sacrebleu.corpus_chrf(compared[0], compared[1:]).score > 0
    assert scores.samples == list(zip(sources, references, translations, strict=True))[:2]
    assert scores.text.sentences == len(sources) and scores.text.compared.startswith("in NFC")
    assert (scores.text.source_language, scores.text.target_language) == ("en", "de")
    assert scores.signatures == {
        "bleu": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}",
        "chrf": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}",
    }


def test_a_source_that_validation_cannot_translate_is_refused_at_the_start(
    model: Transformer, vocabulary: Vocabulary
) -> None:
    pairs = pairs_of(model, vocabulary)
    longest = max(map(len, vocabulary.source.encode([source for source, _ in pairs])))

    def validator(long_input: str, most: int) -> Validator:
        decoding = replace(CONFIG.decoding, long_input=long_input, max_source_tokens=most)
        return Validator(held_out(pairs), vocabulary, replace(CONFIG, decoding=decoding))

    accepted = validator("error", longest)
    accepted.score(accepted.engine(model))
    validator("cut", longest - 1)
    with pytest.raises(NmtError, match=f"has {longest} subwords, and decoding.long_input: error allows {longest - 1}"):
        validator("error", longest - 1)


def test_all_sets_together_give_one_calibration(model: Transformer, vocabulary: Vocabulary) -> None:
    """From 200 sentences on: each counts as much as any other."""
    pairs = pairs_of(model, vocabulary)
    corpora = tuple(schema.Corpus(source=f"/somewhere/{name}.en", target=f"{name}.de") for name in ("old", "new"))
    config = replace(CONFIG, data=replace(CONFIG.data, validation=corpora))
    one, other, fewer = (Validator(held_out(pairs * times), vocabulary, config) for times in (13, 12, 11))
    engine = PyTorchEngine([model], torch.device("cpu"))
    assert score_all([one, fewer], engine)[1] == {}
    scored, entry = score_all([one, other], engine)
    assert [scores.text.sentences for scores in scored] == [104, 96]
    found = Calibration.of(entry)
    assert found is not None and (found.text, found.sentences) == ("old.en + old.de, new.en + new.de", 200)
    translator = Translator(engine, vocabulary, CONFIG.decoding, calibration=found)
    rated = [best for best, *_ in translator.hypotheses([source for source, _ in pairs])]
    real = sentence_chrf([best.text for best in rated], [reference for _, reference in pairs])
    assert fmean(best.confidence or 0 for best in rated) == pytest.approx(fmean(real), abs=0.1)


def test_training_is_left_as_it_was(model: Transformer, vocabulary: Vocabulary) -> None:
    """The model stays in its mode, and random numbers are drawn as without validation."""
    validator = Validator(held_out(pairs_of(model, vocabulary)), vocabulary, CONFIG)
    before = torch.get_rng_state()
    first, second = (score_all([validator], validator.engine(model)) for _ in range(2))
    assert model.training
    assert first == second
    assert torch.equal(before, torch.get_rng_state())
