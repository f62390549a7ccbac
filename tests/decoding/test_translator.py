"""Text in, text out, with small random models."""

import itertools
import math
import multiprocessing
import pickle
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from helpers.translators import (
    CPU,
    DECODING,
    LINES,
    MODEL,
    SETTINGS,
    SIZES,
    VOCABULARY,
    WORDS,
    assert_close,
    new_model,
    new_translator,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config import schema
from nmt.config.language_pairs import LanguagePair
from nmt.data.cleaning.source_text import SourceText
from nmt.data.subwords import vocabulary as vocabularies
from nmt.data.subwords.sentences import join_texts
from nmt.data.subwords.vocabulary import EOS, PAD, UNK, Vocabulary
from nmt.decoding import engine as engine_module
from nmt.decoding import translation
from nmt.decoding.chunks import LineCounts
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.long_input import split
from nmt.decoding.mbr import rank_by_agreement
from nmt.decoding.translate_request import TranslateRequest
from nmt.decoding.translator import Translation, Translator
from nmt.errors import NmtError
from nmt.loading.opened_model import open_model
from nmt.models.transformer.model import DecoderState, Transformer
from nmt.models.translation_model import Memory
from nmt.terms.glossary import Glossary


@cache
def alone(line: str) -> list[Translation]:
    return new_translator().hypotheses([line], 2)[0]


@settings(max_examples=6, deadline=None)
@given(
    lines=st.lists(st.sampled_from([*LINES, "", " \t "]), max_size=20),
    chunk_lines=st.integers(1, 7),
    batch_tokens=st.sampled_from([1, 60, 16_000]),
)
def test_one_translation_a_line_in_order(lines: list[str], chunk_lines: int, batch_tokens: int) -> None:
    """However the lines are cut into chunks and batches; a line without words gives an empty one."""
    translator = new_translator(batch_tokens=batch_tokens)
    found = list(translator.stream_hypotheses(lines, 2, chunk_lines))
    assert list(translator.stream(lines, chunk_lines)) == [best.text for best, *_ in found]
    for line, translations in zip(lines, found, strict=True):
        assert_close(translations, alone(line) if line.strip() else [Translation("", 0.0, 0.0, [], [])])
    empty = sum(not line.strip() for line in lines)
    assert translator.counts == LineCounts(lines=2 * len(lines), empty=2 * empty)


def width(source: Tensor) -> int:
    """The longest sentence of a batch; what a CPU likes to have behind it is not counted."""
    return int((source != PAD).sum(dim=1).max())


@pytest.fixture
def many_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(6)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("many_threads")
def test_several_batches_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker threads give what one gives, and leave the number of threads as it was."""
    seen = set()
    cells = []
    all_at_once = threading.Barrier(3, timeout=30)

    class Watched(Transformer):
        def encode(self, source: Tensor) -> Memory:
            cells.append(len(source) * width(source) * 3)
            if len(seen) < 3:
                seen.add((threading.get_ident(), torch.get_num_threads()))
                all_at_once.wait()
            return super().encode(source)

    monkeypatch.setattr(engine_module, "_WORKER_TOKENS", 60)
    lines = LINES * 10
    found = new_translator(new_model(kind=Watched), batch_tokens=180).hypotheses(lines, 2)
    assert len(seen) == 3
    assert {threads for _, threads in seen} == {2}
    assert max(cells) <= 60, "together more than decoding.batch_tokens"
    for line, translations in zip(lines, found, strict=True):
        assert_close(translations, alone(line))
    assert torch.get_num_threads() == 6
    started: list[int] = []
    thread = threading.Thread(target=lambda: started.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert started == [6]


@pytest.mark.usefixtures("many_threads")
def test_several_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets what it would get alone; the model's mode, PyTorch's threads and the counts come out right."""

    class Slow(Transformer):
        def encode(self, source: Tensor) -> Memory:
            time.sleep(0.01 * random.random())  # so that searches that are not kept apart end in any order
            return super().encode(source)

    monkeypatch.setattr(engine_module, "_WORKER_TOKENS", 60)
    model = new_model(kind=Slow).train()
    translator = new_translator(model, batch_tokens=180)
    expected = [alone(line)[0].text for line in LINES]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: translator.translate(LINES), range(6)))
    assert found == [expected] * 6, "dropout is on, or the rows are mixed up"
    assert model.training
    assert torch.get_num_threads() == 6
    assert translator.counts == LineCounts(lines=6 * len(LINES))


def test_a_translator_is_for_the_process_that_loaded_it() -> None:
    """It cannot be sent to another one, and one that is forked is told what to do, at once."""
    translator = new_translator()
    calls: dict[str, Callable[[], object]] = {
        "translate": lambda: translator.translate(LINES),
        "score": lambda: translator.score(LINES, LINES),
        "encode": lambda: translator.encode(LINES),
    }
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def call_all() -> None:
        for call in calls.values():
            try:
                answers.put(call())
            except NmtError as error:
                answers.put(str(error))

    process = context.Process(target=call_all)
    process.start()
    process.join(60)
    process.kill()
    assert [answers.get() for _ in calls] == [
        "this process was forked after the model was loaded: call nmt.load in each process"
    ] * len(calls)
    with pytest.raises(TypeError, match=r"cannot be pickled: call nmt\.load in each process"):
        pickle.dumps(translator)


def test_lines_before_one_that_cannot_be_translated_are_translated() -> None:
    translator = new_translator(max_source_tokens=8, long_input="error")
    found = []
    with pytest.raises(NmtError, match=r"^line 5: "):
        for text in translator.stream(["two"] * 4 + ["two " * 20], 2, read_ahead=True):
            found.append(text)
    assert found == new_translator().translate(["two"] * 4)


class Script(Transformer):
    """Says `words` (ids), then EOS, whatever it is asked."""

    words: Sequence[int] = ()

    def step(self, state: DecoderState, tokens: Tensor) -> tuple[Tensor, DecoderState]:
        hidden, after = super().step(state, tokens)
        said = self.words[state.length] if state.length < len(self.words) else EOS
        return torch.full_like(hidden, said), after

    def scores(self, hidden: Tensor) -> Tensor:
        scores = hidden.new_full((*hidden.shape[:-1], self.output.out_features), -50.0)
        return scores.scatter_(2, hidden[:, :, :1].long(), 0.0)


def test_a_translation_is_one_line_and_one_column() -> None:
    """Through byte fallback a model can say any byte, line breaks and tabs among them."""
    model = new_model(kind=Script)
    assert isinstance(model, Script)
    breaks = ["\n", "\r\n", "\t", "\x85", "\u2028"]
    to_id = VOCABULARY.target._processor.PieceToId
    for text in breaks:
        said = [to_id(f"<0x{byte:02X}>") for byte in f"a{text}b".encode()]
        assert UNK not in said
        model.words = said
        [found] = new_translator(model, max_extra_tokens=20).translate(["one"])
        assert len(found.splitlines()) == 1
        assert found.replace(" ", "") == "ab"
        assert "\t" not in found


def test_long_sources() -> None:
    """Split, cut, skipped or refused by decoding.long_input."""
    limit = 20
    long, fits = " ".join(WORDS * 6), "one two"
    assert len(VOCABULARY.source.encode([long])[0]) > 40
    shortened = VOCABULARY.source.decode([VOCABULARY.source.encode([long])[0][:limit]])[0]
    cutting = new_translator(long_input="cut", max_source_tokens=limit)
    expected = new_translator().translate([shortened, fits])
    assert cutting.translate([long, fits]) == expected
    assert cutting.counts == LineCounts(lines=2, cut=1)
    splitting = new_translator(long_input="split", max_source_tokens=limit)
    parts = [part.text for part in split([long], limit, VOCABULARY.source.encode)]
    [[found, _], _] = splitting.hypotheses([long, fits], 2)
    ones = new_translator().hypotheses(parts)
    assert found.text == " ".join(one.text for [one] in ones)
    assert found.log_probability == pytest.approx(sum(one.log_probability for [one] in ones), abs=1e-3)
    assert found.pieces == [piece for [one] in ones for piece in one.pieces]
    assert len(found.pieces) == len(found.token_scores)
    assert splitting.counts == LineCounts(lines=2, split=1, parts=len(parts))
    assert splitting.translate([long, fits]) == [found.text, expected[1]]
    [[aligned, other], _] = splitting.hypotheses([long, fits], 2, alignment=True)
    assert aligned.source_pieces is not None and aligned.alignment is not None
    own = [len(VOCABULARY.source.encode([part])[0]) + 1 for part in parts]
    widths = [width for width, [one] in zip(own, ones, strict=True) for _ in one.pieces]
    assert len(aligned.source_pieces) == sum(own) and list(map(len, aligned.alignment)) == widths
    assert other.alignment is not None and len(other.alignment) == len(other.pieces)
    begun = splitting.translate([long, fits])
    assert splitting.hypotheses([long, fits], prefixes=["nine", ""])[0][0].text.startswith("nine")
    assert splitting.translate([long, fits]) == begun
    skipping = new_translator(long_input="skip", max_source_tokens=limit)
    assert skipping.translate([long, fits]) == ["", expected[1]]
    assert skipping.counts == LineCounts(lines=2, skipped=1)
    with pytest.raises(NmtError, match=r"^line 4: .* more than decoding\.max_source_tokens: 20"):
        list(new_translator(long_input="error", max_source_tokens=limit).stream([fits, "", fits, long], chunk_lines=2))


SENTENCES = ["one two. ", "Three four five.  ", "Apples! ", "Pears in the old red barn."]


def test_lines_of_several_sentences_are_translated_in_parts() -> None:
    """With the scores, n-best lists and alignments of the parts, and the space that stood between them."""
    line, encode = "".join(SENTENCES), VOCABULARY.source.encode
    most = max(len(ids) for ids in encode(SENTENCES))
    translator, plain = new_translator(), new_translator()
    translator.source_text = SourceText(longest=len(encode([line])[0]), several=0)
    best = plain.translate(SENTENCES)
    expected = best[0] + " " + best[1] + "  " + best[2] + " " + best[3]
    assert translator.translate([line, "", "one two."]) == [expected, "", plain.translate(["one two."])[0]]
    assert translator.counts == LineCounts(lines=3, empty=1, split=1, several=1, parts=4)
    [two] = translator.hypotheses([line], 2, alignment=True)
    of_parts = plain.hypotheses(SENTENCES, 2, alignment=True)
    assert [one.text for one in two] == [
        join_texts([part[:rank][-1].text for part in of_parts], [" ", "  ", " ", ""]) for rank in (1, 2)
    ]
    assert two[0].log_probability == pytest.approx(sum(part[0].log_probability for part in of_parts), abs=1e-3)
    assert two[0].source_pieces == [piece for part in of_parts for piece in part[0].source_pieces or ()]
    assert len(two[0].alignment or ()) == len(two[0].pieces) == sum(len(part[0].pieces) for part in of_parts)
    assert translator.hypotheses([line], prefixes=["nine"]) == plain.hypotheses([line], prefixes=["nine"])
    # As many sentences together as lines of several sentences had in training.
    translator.source_text, translator.counts = SourceText(translator.source_text.longest, 2 * most), LineCounts()
    parts = [part.text for part in split(SENTENCES, translator.source_text.longest, encode, 2 * most)]
    assert 1 < len(parts) < 4
    assert translator.translate([line])[0].split() == " ".join(plain.translate(parts)).split()
    translator.source_text = SourceText(translator.source_text.longest, translator.source_text.longest)
    assert translator.translate([line]) == plain.translate([line])


def test_outputs_stay_within_learned_positions() -> None:
    model = new_model(replace(SIZES, positions="learned"), kind=Script)
    assert isinstance(model, Script)
    model.words = [10] * 1000
    [[best]] = new_translator(model, max_extra_tokens=500).hypotheses(["one"])
    assert len(best.pieces) == 40  # 39 and the end of sentence


@pytest.mark.parametrize("beam", [1, 2])
def test_one_score_that_is_no_number_is_an_error(beam: int) -> None:
    model = new_model(replace(SIZES, tie="none"))
    with torch.no_grad():
        model.output.weight[300] = math.nan
    with pytest.raises(NmtError, match="line 2: the model's scores are not numbers"):
        new_translator(model, beam_size=beam).translate(["", "one two"])


def test_a_live_model_stays_in_its_mode() -> None:
    model = new_model().train()
    translator = new_translator(model)
    assert translator.translate(LINES) == new_translator().translate(LINES), "dropout is on"
    assert model.training
    translator.decoding = replace(DECODING, max_source_tokens=1, long_input="error")
    with pytest.raises(NmtError):
        translator.translate(LINES)
    assert model.training


# ------------------------------------------------------------------------ choices


def test_prefixes_begin_the_translations() -> None:
    prefixes = [" ".join(WORDS[i % 5 : i % 5 + i % 3]) for i in range(len(LINES))]
    found = new_translator().hypotheses(LINES, 2, prefixes=prefixes)
    for line, prefix, translations in zip(LINES, prefixes, found, strict=True):
        assert all(one.text.startswith(prefix) for one in translations)
        if not prefix:
            assert_close(translations, alone(line))
    texts = list(new_translator().stream(LINES, prefixes=iter(prefixes)))
    assert texts == [translations[0].text for translations in found]
    with pytest.raises(NmtError, match="the prefixes end before line 3: give one for each input line"):
        new_translator().hypotheses(LINES, prefixes=["one", "two"])


def test_what_cannot_fit_is_refused_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no search is refused for which there is the memory that it takes."""
    within = 0
    monkeypatch.setattr(engine_module, "host_memory_within_reach", lambda: within)
    translator = new_translator(method="sample", candidates=8)
    with pytest.raises(
        NmtError, match=r"decoding\.batch_tokens: 16000 with decoding\.beam_size: [0-9]+ needs at least"
    ):
        translator.translate(LINES)
    monkeypatch.setattr(engine_module, "host_memory_within_reach", lambda: None)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        found = translator.translate(LINES)
    events = profiled.profiler.kineto_results.events()  # type: ignore[union-attr]
    within = max(itertools.accumulate(event.nbytes() for event in events if event.name() == "[memory]"))
    monkeypatch.setattr(engine_module, "host_memory_within_reach", lambda: within)
    assert translator.translate(LINES) == found


class Ending(Transformer):
    """A model that likes to end, as `MODEL` does not."""

    def logits(self, states: Tensor) -> Tensor:
        scores = super().logits(states)
        scores[..., EOS] += 9.0
        return scores


def test_lengths() -> None:
    def subwords(kind: type[Transformer], **decoding: object) -> list[int]:
        translator = new_translator(new_model(kind=kind), **{"max_extra_tokens": 0, **decoding})
        return [len(one.pieces) - 1 for [one] in translator.hypotheses(LINES)]

    own = [len(ids) for ids in VOCABULARY.source.encode(LINES)]
    assert subwords(Transformer) == own
    assert subwords(Transformer, max_length_ratio=2.5) == [int(2.5 * length) for length in own]
    assert subwords(Transformer, max_extra_tokens=3) == [length + 3 for length in own]
    assert subwords(Transformer, max_length=3, max_length_ratio=9.0) == [3] * len(own)
    assert max(subwords(Ending)) == 0
    assert subwords(Ending, min_length=5, max_length_ratio=9.0) == [5] * len(own)
    assert subwords(Ending, min_length=5) == [min(5, length) for length in own]
    assert subwords(Ending, min_length_ratio=0.5) == [math.ceil(0.5 * length) for length in own]


def test_no_repeats_and_banned_words() -> None:
    plain = new_translator(max_length_ratio=3.0).translate(LINES)
    words = sorted({word for text in plain for word in text.split()})
    banned = (words[0], words[-1].upper())
    translator = new_translator(max_length_ratio=3.0, banned=banned, no_repeat_ngram=1)
    for [one] in translator.hypotheses(LINES):
        assert not {word.casefold() for word in banned} & {word.casefold() for word in one.text.split()}
        assert len(set(one.pieces)) == len(one.pieces)
    assert translator.counts.unconstrained == 0


def test_rules_that_nothing_meets_are_given_up_and_counted() -> None:
    longer = len(VOCABULARY.target) + 5
    settings = {"beam_size": 1, "max_length": longer, "max_length_ratio": 500.0}
    translator = new_translator(no_repeat_ngram=1, min_length=longer, **settings)
    assert translator.translate(["one"]) == new_translator(**settings).translate(["one"])
    assert translator.counts.unconstrained == 1


def test_what_the_vocabulary_would_change_is_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    changes = vocabularies.learn([" ".join(WORDS)] * 20, schema.VocabularyConfig(size=300, normalization="nmt_nfkc"))
    model = Transformer(SIZES, len(changes), len(changes), PAD).eval()
    translator = Translator(PyTorchEngine([model], CPU), Vocabulary(changes, changes), DECODING)
    translator.hypotheses(LINES[:2], prefixes=["5 m²", "e\u0301 m²"])
    assert translator.counts.prefixes == 2 and "5 m²" in caplog.text
    translator.use_glossary(Glossary([("two", "pears"), ("red", "（rot）")]), "terms.tsv")
    assert "terms.tsv" in caplog.text and "（rot）" in caplog.text


@pytest.mark.parametrize("decoding", [{"method": "sample", "candidates": 12}, {"beam_size": 6}], ids=["sample", "beam"])
def test_consensus_takes_the_most_similar(decoding: dict[str, object]) -> None:
    """A text that was found several times counts as often."""
    translator = new_translator(consensus="chrf", **decoding)
    request = TranslateRequest(translator.decoding, LanguagePair("", ""))
    [inputs] = translator._inputs(LINES, request, translator.batch_tokens)
    candidates = translator.engine.search(inputs.sources, request.search_options(None), translator.batch_tokens)
    chosen = translator.translate(LINES)
    for found, text in zip(candidates, chosen, strict=True):
        texts = translation.texts(found, VOCABULARY.target)
        assert len(texts) == (12 if "method" in decoding else 6)
        assert text == texts[rank_by_agreement(texts, "chrf")[0]]
    assert [found[0].text for found in translator.hypotheses(LINES, 2)] == chosen


def test_coverage_ranks_what_the_beam_ended() -> None:
    whole = new_translator(beam_size=4).hypotheses(LINES, 4, alignment=True)
    found = new_translator(beam_size=4, coverage_penalty=3.0).hypotheses(LINES)
    for all_four, [one] in zip(whole, found, strict=True):
        best = max(
            all_four,
            key=lambda each: (
                each.score
                + 3.0 * sum(math.log(min(1.0, sum(column))) for column in zip(*(each.alignment or []), strict=True))
            ),
        )
        assert one.text == best.text


def test_a_glossarys_terms_are_said(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("two\tpears\tx\n", encoding="utf-8")
    file = tmp_path / "model.safetensors"
    model_file.save(file, Checkpoint(SETTINGS, VOCABULARY, model_file.weights_of(MODEL), {}))
    with pytest.raises(NmtError, match=r"terms\.tsv"):
        open_model(file).translator("cpu", glossary=path)
    path.write_text("two\told barn\nsix\tpears|apples in\n", encoding="utf-8")
    translator = open_model(file).translator("cpu", glossary=path)
    plain = open_model(file).translator("cpu").translate(LINES)
    n_best = translator.hypotheses(LINES)
    for line, [best], other in zip(LINES, n_best, plain, strict=True):
        assert best.terms is not None and [term.found_as for term in best.terms] == re.findall("two|six", line)
        assert all(term.how == "failed" or term.target in best.text for term in best.terms)
        assert best.text == other or any(term.how == "placed" for term in best.terms)
    counts = translator.counts.terms
    assert counts is not None and sum(counts.how.values()) == sum(len(best.terms or ()) for [best] in n_best)
    assert counts.lines == sum(bool(best.terms) for [best] in n_best)


def test_encode_gives_the_encoders_output() -> None:
    translator = new_translator()
    found = translator.encode([*LINES, ""])
    for line, states in zip([*LINES, ""], found, strict=True):
        source = torch.tensor([[*VOCABULARY.source.encode([line])[0], EOS]])
        torch.testing.assert_close(states, MODEL.encode(source).states[0], rtol=1e-5, atol=1e-5)
    translator.decoding = replace(DECODING, max_source_tokens=1)
    with pytest.raises(NmtError, match=r"line [0-9]: [0-9]+ subwords, more than 1: shorten or split it"):
        translator.encode(LINES)
