"""What people and programs are shown."""

import json
from dataclasses import replace

import pytest

from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.breakdowns import by_frequency, by_length
from nmt.evaluation.output import Details, Evaluation, to_json, to_text
from nmt.evaluation.reliability import measure_reliability
from nmt.evaluation.scores import Difference, MetricScore, score
from nmt.evaluation.sentences import example_sentences
from nmt.evaluation.systems import System

REFERENCE = AlignedText("ref.de", [f"Der Hund Nummer {i} rennt im Park." for i in range(12)])
SOURCE = AlignedText("in.en", [f"Dog number {i} runs in the park." for i in range(12)])


def systems(count: int) -> list[AlignedText]:
    return [
        AlignedText(f"{i}.de", [line.replace("rennt", "geht" * i) for line in REFERENCE.lines]) for i in range(count)
    ]


def details(of: list[AlignedText], sentences: int) -> Details:
    return Details(
        [by_length(REFERENCE, "de", of, [REFERENCE], "de")],
        by_frequency("ref.de", REFERENCE.lines, of, REFERENCE, "de"),
        *example_sentences(SOURCE, of, [REFERENCE], "de", count=sentences),
        confidence={},
    )


@pytest.fixture(scope="module")
def scored() -> list[MetricScore]:
    """Of three systems."""
    return score(systems(3), [REFERENCE], "de")


@pytest.mark.parametrize("count", [1, 3])
def test_tables_fit_into_80_columns_and_leave_nothing_out(scored: list[MetricScore], count: int) -> None:
    scores, found = scored[: 3 * count], details(systems(count), 0)
    text = to_text(Evaluation(scores, found))
    signatures = [one.signature for one in scores]
    assert all(len(line) <= 80 or line.endswith(tuple(signatures)) for line in text.split("\n"))
    assert all(line == line.rstrip() for line in text.split("\n"))
    assert all(f"{one.value:.2f} ± " in text for one in scores)
    differences = [one.difference for one in scores if one.difference]
    assert len(differences) == 3 * (count - 1)
    assert all(f"{one.p_randomisation:.4f}" in text for one in differences if one.p_randomisation is not None)
    assert text.count("F1") == count
    assert ("(the baseline)" in text) is (count > 1)


def test_stars_are_for_what_randomisation_finds() -> None:
    difference = Difference(0.5, 0.01, 1000, 0.06, 10_000)
    rows = [MetricScore(name, "BLEU", 30.0, None, one, "s") for name, one in (("a", None), ("b", difference))]
    assert "0.0600\n" in to_text(Evaluation(rows)) and "0.0100\n" in to_text(Evaluation(rows))
    rows[1] = replace(rows[1], difference=replace(difference, p_randomisation=0.04))
    assert "0.0400 *\n" in to_text(Evaluation(rows))
    for p, shown in ((0.04996, "0.04996 *\n"), (0.049999, "0.049999 *\n"), (0.05, "0.0500\n"), (0.05001, "0.05001\n")):
        rows[1] = replace(rows[1], difference=replace(difference, p_randomisation=p))
        assert f" {shown}" in to_text(Evaluation(rows))
    rows[1] = replace(rows[1], difference=Difference(0.0, None, 1000, None, 10_000))
    assert [line.split()[-1] for line in to_text(Evaluation(rows)).split("\n") if line.startswith("  p,")] == ["-", "-"]


def test_sentences_are_shown_with_all_that_belongs_to_them(scored: list[MetricScore]) -> None:
    of = systems(2)
    text = to_text(Evaluation(scored[:6], details(of, 1)))
    assert text.count("  source       Dog number ") == 3  # the worst of each, and the one most worse
    assert "  system 1     Der Hund Nummer" in text and "  system 2     Der Hund Nummer" in text
    assert "System 2 translates 12 lines differently from system 1" in text
    one = to_text(Evaluation(scored[:3], details(of[:1], 1)))
    assert "\n\nThe lines with the lowest chrF\n\nline " in one and "system 1" not in one


def test_systems_are_compared_in_rows_of_at_most_80_columns(scored: list[MetricScore]) -> None:
    """With the numbers of the other table. What no system has is no column."""
    speeds = (1_234_567.0, 12.3, None)
    sizes = (123_456_789, 1_234_567_890, None)
    known = [System(f"{i}.de", sizes[i], speeds[i]) for i in range(3)]
    comet = [MetricScore(f"{i}.de", "COMET", 0.81234, None, None, "model:x") for i in range(3)]
    text = to_text(Evaluation([*scored, *comet], systems=known), compare=True)
    signatures = [one.signature for one in scored]
    assert all(len(line) <= 80 or line.endswith(tuple(signatures)) for line in text.split("\n"))
    names, table, explanation, _ = text.split("\n\n")
    assert names.startswith("system 1  0.de  (the baseline)\nsystem 2  1.de\n")
    heads, *rows = [line.split() for line in table.split("\n")]
    assert heads == ["system", "MB", "words/s", "BLEU", "±", "difference", "chrF2", "COMET"]
    assert rows[0][:3] == ["1", "123.5", "1,234,567"] and rows[1][:3] == ["2", "1,234.6", "12.3"]
    assert rows[2][:3] == ["3", "-", "-"] and [len(row) for row in rows] == [7, 9, 9]
    for row, bleu, chrf in zip(rows, scored[::3], scored[1::3], strict=True):
        assert bleu.interval is not None
        assert row[3:5] == [f"{bleu.value:.2f}", f"{bleu.interval.half_width:.2f}"]
        assert row[-2:] == [f"{chrf.value:.2f}", "0.8123"]
        assert bleu.difference is None or row[5:7] == [f"{bleu.difference.value:+.2f}", "*"]
    assert all(explained in explanation for explained in ("MB  ", "words/s  ", "±  ", "*  p below 0.05"))
    alone = to_text(Evaluation([replace(one, interval=None) for one in scored[:3]]), compare=True)
    assert alone.split("\n")[0].split() == ["system", "BLEU", "chrF2"] and "TER" not in alone


def test_the_confidence_of_each_model_has_a_table(scored: list[MetricScore]) -> None:
    """With the number of its system. What cannot be computed is a dash."""
    lines = [(float(i), -0.5) for i in range(1_200)]
    found = measure_reliability("val.en, 1,014 sentences", lines, [0.5 * i for i in range(1_200)])
    assert found is not None
    rated = replace(details(systems(3), 0), confidence={"2.de": found})
    text = to_text(Evaluation(scored, rated))
    title, bins, correlations, summary, *_ = text.partition("\n\nConfidence of ")[2].split("\n\n")
    assert title.startswith("system 3, calibrated with val.en, 1,014 sentences. ")
    rows = [line.split() for line in bins.split("\n")]
    assert rows[:2] == [["lines", "expected", "real"], ["120", "59.5", "29.8"]] and len(rows) == 11
    rows = [line.split() for line in correlations.split("\n")]
    assert rows[1:] == [["confidence", "1.000", "1.000"], ["log", "probability", "-", "-"]]
    assert "is 299.8 on average" in summary and "100% of the tenth" in summary
    assert max(map(len, [*title.split("\n"), *bins.split("\n"), *summary.split("\n")])) <= 80
    read = json.loads(to_json(Evaluation(scored, rated)))["confidence"]
    assert read.keys() == {"2.de"} and read["2.de"]["lines"] == [120] * 10
    assert read["2.de"]["correlations"]["log_probability"] == {"pearson": None, "spearman": None}


def test_json_is_a_list_of_scores_and_with_details_an_object(scored: list[MetricScore]) -> None:
    scores, found = scored[:6], details(systems(2), 2)
    rows = json.loads(to_json(Evaluation(scores)))
    assert [(row["system"], row["name"], row["value"]) for row in rows] == [(s.system, s.name, s.value) for s in scores]
    assert rows[0]["difference"] is None and 0 < rows[3]["difference"]["p_randomisation"] <= 1
    assert rows[3]["interval"].keys() == {"mean", "half_width", "samples", "seed"}
    assert rows[3]["parts"].keys() == {"precisions", "length_ratio", "brevity_penalty"} and rows[4]["parts"] is None
    assert len(rows[3]["parts"]["precisions"]) == 4
    whole = json.loads(to_json(Evaluation(scores, found)))
    assert whole.keys() == {"scores", "lengths", "frequencies", "worst", "changed", "confidence"}
    assert whole["scores"] == rows
    assert whole["lengths"][0]["buckets"][0]["words"] == {"first": 0, "last": 9}
    assert len(whole["worst"]) == 2 and whole["worst"][0]["sentences"][0]["references"] == [REFERENCE.lines[0]]
