"""The confidence of a translation: the chrF that is expected, the same from every engine and every search."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from helpers.export_models import LINES, make_model

import nmt
from nmt.checkpoints import model_file
from nmt.decoding.confidence import CALIBRATION, Calibration, fit
from nmt.decoding.translation import Translation
from nmt.interop.ctranslate2 import export as ctranslate2

WEIGHTS = (-1.1, 0.4, -0.9, 0.7, 0.8)
GIVEN = Calibration("some text", 200, 0.5, WEIGHTS, 30.0)


def expected(log_probability: float, subwords: int, source_subwords: int, characters: int) -> float:
    """As documented, written another way."""
    ratio = math.log(subwords) - math.log(source_subwords)
    features = (-log_probability / subwords) ** 0.5, ratio, abs(ratio), math.log(characters / subwords), 1
    return 100 / (1 + math.exp(-sum(weight * feature for weight, feature in zip(WEIGHTS, features, strict=True))))


def made_up(count: int, seed: int = 1) -> list[Translation]:
    random_ = random.Random(seed)
    found = []
    for _ in range(count):
        length, source = random_.randint(2, 30), random_.randint(2, 30)
        log_probability, text = -length * random_.uniform(0, 2) ** 2, "a" * random_.randint(length, 6 * length)
        found.append(Translation(text, 0.0, log_probability, [], [], subwords=length, source_subwords=source))
    return found


def test_fit_finds_the_weights_and_expects_what_is_real_in_each_bin() -> None:
    """Of chrF with noise, as far from 0 and 100 as it can be."""
    translations, random_, real = made_up(20_000), random.Random(2), list[float]()
    for one in translations:
        mean = expected(one.log_probability, one.subwords, one.source_subwords, len(one.text))
        real.append(mean + random_.uniform(-1, 1) * min(mean, 100 - mean))
    found = fit("noisy", translations, real)
    assert found is not None and (found.text, found.sentences) == ("noisy", 20_000)
    assert found.weights == pytest.approx(WEIGHTS, abs=0.06)
    confidences = [found.rated(one).confidence for one in translations]
    pairs = sorted(zip(confidences, real, strict=True))  # type: ignore[type-var]
    for first in range(0, 20_000, 2000):
        some = pairs[first : first + 2000]
        assert fmean(pair[0] for pair in some) == pytest.approx(fmean(pair[1] for pair in some), abs=1.5)  # type: ignore[arg-type, misc]
    assert 0.5 < found.correlation < 1
    shifted = fit("half", translations, [score / 2 for score in real])
    assert shifted is not None and fmean(shifted.rated(one).confidence for one in translations) == pytest.approx(  # type: ignore[misc]
        fmean(real) / 2, abs=0.1
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(5))
def test_every_text_gives_finite_weights(seed: int) -> None:
    """Equal scores, equal features, one value far from all others, sides that a threshold separates."""
    some, random_ = made_up(200, seed), random.Random(seed)
    alike = [replace(some[0], log_probability=0.0)] * 200
    far = [*alike[1:], Translation("", 0.0, -1e6, [], [], subwords=1, source_subwords=10**6)]
    sides = [100.0 if -one.log_probability > one.subwords else 0.0 for one in some]
    drawn = [random_.uniform(0, 100) for _ in some]
    cases: list[tuple[list[Translation], Sequence[float]]] = [(some, sides), (some, drawn), (alike, drawn)]
    for translations in (some, alike, far):
        cases += [(translations, [score] * 200) for score in (0.0, 50.0, 100.0)]
        cases += [(translations, [score] * 199 + [100 - score]) for score in (0.0, 100.0)]
    assert GIVEN.rated(replace(some[0], log_probability=-1e9)).confidence == 0
    for translations, scores in cases:
        found = fit("", translations, scores)
        assert found is not None and all(map(math.isfinite, (*found.weights, found.correlation)))
        rated = [found.rated(one).confidence for one in translations]
        assert fmean(rated) == pytest.approx(fmean(scores), abs=0.1), scores  # type: ignore[arg-type]
        if len(set(scores)) == 1 or translations == alike:
            assert found.correlation == 0


def test_a_fifth_of_the_text_is_low_if_it_is_not_good() -> None:
    translations = made_up(1_000)
    real = [expected(one.log_probability, one.subwords, one.source_subwords, len(one.text)) for one in translations]
    found, good = fit("a text", translations, real), fit("good", translations, [95 + chrf / 20 for chrf in real])
    assert found is not None and good is not None
    confidences = [found.rated(one).confidence or 0 for one in translations]
    assert sum(confidence < found.low for confidence in confidences) == pytest.approx(200, abs=30)
    assert good.low == 80


def test_200_translations_of_lines_with_words_are_needed() -> None:
    empty = Translation("", 0.0, 0.0, [], [])
    assert GIVEN.rated(empty).confidence is None
    assert fit("", [*made_up(199), empty], [50.0] * 200) is None
    found = fit("", [*made_up(200), empty], [50.0] * 200 + [0.0])
    assert found is not None and found.sentences == 200 and found.weights[-1] == pytest.approx(0, abs=1e-6)


def test_json_is_read_as_written_and_anything_else_is_no_calibration() -> None:
    written = json.loads(json.dumps(GIVEN.to_json()))
    assert Calibration.from_json(written) == GIVEN == Calibration.of({"step": 1, CALIBRATION: written})
    assert str(GIVEN) == "some text, 200 sentences" and Calibration.of({"step": 1}) is None
    weights = [None, 3, "abcde", [1, 2, 3, 4], [1] * 6, [1, 2, 3, 4, math.nan], [1, 2, 3, 4, math.inf], [[1]] * 5]
    wrong: list[object] = [None, 3, "text", [], {}, *({**written, "weights": one} for one in weights)]
    wrong += [{**written, "weights": ["1", 2, 3, 4, 5]}, {**written, "weights": [1, 2, 3, 4, 1e300]}]
    wrong += [{**written, "sentences": one} for one in (math.inf, math.nan, None, "many", "200")]
    wrong += [{**written, "correlation": "0.5"}, {**written, "low": "30"}]
    assert [Calibration.from_json(one) for one in wrong] == [None] * len(wrong)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A calibrated model file, and its folder for CTranslate2."""
    folder = tmp_path_factory.mktemp("calibrated")
    checkpoint = replace(make_model(), provenance={CALIBRATION: GIVEN.to_json()})
    model_file.save(folder / "model.safetensors", checkpoint)
    (folder / "exported").mkdir()
    ctranslate2.write(folder / "exported", checkpoint)
    return folder / "model.safetensors", folder / "exported"


LONG = " ".join(["one two three four five"] * 12)  # is split
ALL = [*LINES, LONG, "ONE TWO THREE", "two one"]


def test_is_what_the_formula_says_of_every_search(models: tuple[Path, Path]) -> None:
    """Beam search, n-best, greedy search, samples and prefixes, with one part or several."""
    file, _ = models
    for settings, count in ((), 3), (("beam_size=1",), 1), (("method=sample",), 4):
        translator = nmt.load(
            file, "cpu", overrides=["decoding.engine=torch", *(f"decoding.{one}" for one in settings)]
        )
        prefixes = ["", *["ein"] * (len(ALL) - 1)] if count == 3 else None
        lines = translator.hypotheses(ALL, count, alignment=True, prefixes=prefixes)
        assert translator.counts.parts > 1
        for source, line in zip(ALL, lines, strict=True):
            assert len({one.confidence for one in line}) > (count > 1 and bool(source))
            for one in line:
                if not source:
                    assert one.confidence is None
                    continue
                assert one.source_pieces and (one.subwords, one.source_subwords) == (
                    len(one.pieces), len(one.source_pieces),
                )  # fmt: skip
                found = sum(one.token_scores), one.subwords, one.source_subwords, max(1, len(one.text))
                assert one.confidence == pytest.approx(expected(*found), abs=0.06)


def test_a_line_that_is_cut_counts_whole(models: tuple[Path, Path]) -> None:
    """Its translation lacks the rest, so that less is expected of it."""
    lengths = []
    for most in (20, 999):
        overrides = ["decoding.long_input=cut", f"decoding.max_source_tokens={most}"]
        translator = nmt.load(models[0], "cpu", overrides=overrides)
        lengths.append([best.source_subwords for [best] in translator.hypotheses(["one two", LONG])])
        assert translator.counts.cut == (most == 20)
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("token_scores", [False, True])
@pytest.mark.parametrize("beam", [1, 3])
def test_engines_agree(models: tuple[Path, Path], beam: int, token_scores: bool) -> None:
    file, folder = models
    every = []
    for model, engine in ((file, "torch"), (file, "ctranslate2"), (folder, "auto")):
        translator = nmt.load(model, "cpu", overrides=[f"decoding.engine={engine}", f"decoding.beam_size={beam}"])
        assert translator.calibration == GIVEN
        every.append([best for best, *_ in translator.hypotheses(ALL, token_scores=token_scores)])
        assert translator.counts.parts > 1
    for first, *others in zip(*every, strict=True):
        for other in others:
            assert other.text == first.text
            assert other.confidence == (first.confidence and pytest.approx(first.confidence, abs=0.11))
    assert len({one.confidence for one in every[0]}) == len(ALL) and every[0][2].confidence is None


def test_an_ensemble_has_none_and_says_so(models: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
    file, _ = models
    caplog.set_level("INFO", "nmt")
    for model, ensemble in (file, [file]), (file, []):
        translator = nmt.load(model, "cpu", ensemble=ensemble, overrides=["decoding.engine=torch"])
        [[best]] = translator.hypotheses(["one two"])
        assert (best.confidence is None) == bool(ensemble)
    [message] = [record.getMessage() for record in caplog.records if "confidence" in record.msg]
    assert message == f"an ensemble has no confidence: the calibration belongs to {file} alone"


def test_a_damaged_entry_of_a_model_file_counts_as_none(models: tuple[Path, Path], tmp_path: Path) -> None:
    file, _ = models
    for entry in ({"weights": [1]}, [], "x", None):
        checkpoint = replace(model_file.load(file), provenance={CALIBRATION: entry})
        model_file.save(tmp_path / "model.safetensors", checkpoint)
        [[best]] = nmt.load(tmp_path / "model.safetensors", "cpu").hypotheses(["one two"])
        assert best.text and best.confidence is None
