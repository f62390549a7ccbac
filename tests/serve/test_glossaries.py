"""Glossaries of the service and of requests."""

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from helpers import endpoints
from helpers.services import Gated, service, service_of, until

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.decoding.translator import Translation
from nmt.errors import NmtError
from nmt.serve.batching import BatchingQueue, BatchOptions
from nmt.serve.glossaries import GlossaryFile
from nmt.serve.queues import open_queue
from nmt.serve.requests import RequestLimits
from nmt.terms.glossary import Glossary
from nmt.terms.used_term import UsedTerm

pytestmark = pytest.mark.usefixtures("time_limit")

ONE = LanguagePairs((LanguagePair("en", "de"),))
LIBRE = {"source": "en", "target": "de"}


class Placing(Gated):
    """Writes the words of a line in capitals, and target terms in place of source terms; `no` cannot be placed."""

    def hypotheses(
        self, lines: Any, n_best: int = 1, *, glossary: Glossary | None = None, **asked: Any
    ) -> list[list[Translation]]:
        self.calls.append((list(lines), n_best))
        self.inside.set()
        assert self.gate.wait(30)
        return [[self.say(line, glossary)] * n_best for line in lines]

    def say(self, line: str, glossary: Glossary | None) -> Translation:
        terms, text = [], line.upper()
        for found in reversed(glossary.find(line) if glossary else []):
            target = found.term.target
            if target != "no":
                text = text[: found.start] + target + text[found.stop :]
            terms.append(UsedTerm(found.term.source, target, "failed" if target == "no" else "placed", found.found_as))
        return Translation(text, -1.0, -1.0, [], [], terms=terms[::-1] if glossary else None)


def written(path: Path, **terms: str) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in terms.items()))
    return path


def text_of(queue: BatchingQueue, line: str, options: BatchOptions | None = None) -> str:
    return queue.submit([line], options).result(30)[0][0].text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "terms.tsv", cat="Katze", dog="no")


def test_a_changed_file_is_read_again(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is wrong with it is told once, and does not end the service."""
    caplog.set_level(logging.INFO, "nmt")
    queue = BatchingQueue(Placing(), 20, GlossaryFile(file, ONE))
    assert text_of(queue, "a cat") == "A Katze"
    written(file, cat="Kater", mouse="Maus", bird="\u200bx")
    assert [text_of(queue, "a cat") for _ in range(2)] == ["A Kater"] * 2
    assert [message for message in caplog.messages if "cannot be written" in message]
    caplog.clear()
    for wrong in ("cat\n", "cat\tone\ncat\ttwo\n", None):
        if wrong is None:
            file.unlink()
        else:
            file.write_text(wrong)
        assert [text_of(queue, "a cat, a mouse") for _ in range(3)] == ["A Kater, A Maus"] * 3
        [told] = caplog.messages
        assert str(file) in told and told.endswith(": the last valid glossary stays in use") and "\n" not in told
        caplog.clear()
    written(file, cat="Mieze")
    assert text_of(queue, "a cat") == "A Mieze"
    assert caplog.messages == [f"glossary: {file}: 1 term"]
    queue.close()


def test_requests_with_different_glossaries_at_once(file: Path) -> None:
    """Each gets its own terms, in place of those of the service. Equal glossaries are translated together."""
    translator = Placing()
    with (
        service(translator, glossary=GlossaryFile(file, ONE)) as (served, queue),
        ThreadPoolExecutor(6) as pool,
    ):
        translator.gate.clear()
        first = pool.submit(served.post, {"text": "first"})
        assert translator.inside.wait(30)
        own: list[dict[str, str]] = [{"cat|cats": "chat|chats"}, {"cat": "gatto", "a": "un"}, {}]
        own.append(dict(reversed(own[1].items())))
        answers = []
        for number, glossary in enumerate(own, start=1):
            answers.append(pool.submit(served.post, {"text": f"a cat {number}", "glossary": glossary}))
            until(lambda number=number: queue.waiting == number)
        translator.gate.set()
        texts = [answer.result(30).json["translations"][0][0]["text"] for answer in answers]
        assert texts == ["A chat 1", "un gatto 2", "A Katze 3", "un gatto 4"]
        assert first.result(30).status == 200
    assert [lines for lines, _ in translator.calls] == [["first"], ["a cat 1"], ["a cat 2", "a cat 4"], ["a cat 3"]]


def test_what_an_answer_tells_of_terms(file: Path) -> None:
    with service(Placing(), glossary=GlossaryFile(file, ONE)) as (served, _):
        answer = served.post({"text": ["one cat", "a Dog", "x"]}).json
        placed = {"source": "cat", "target": "Katze", "how": "placed", "found_as": "cat"}
        failed = {"source": "dog", "target": "no", "how": "failed", "found_as": "Dog"}
        assert [best["terms"] for [best] in answer["translations"]] == [[placed], [failed], []]
        warning = "1 of 2 glossary terms was not inserted: dog"
        assert answer["warning"] == warning
        html = {"q": ["<p>a <b>cat</b>, a dog</p>"], "format": "html", "glossary": {"a": "no"}}
        answer = served.post(html | LIBRE).json
        assert "Katze" not in answer["translatedText"][0]
        assert answer["warning"] == "2 of 2 glossary terms were not inserted: a"
    with service(Placing()) as (served, _):
        assert "terms" not in served.post({"text": "one cat"}).json["translations"][0][0]


def test_documents(file: Path) -> None:
    def sent(**fields: str) -> tuple[str, list[str]]:
        parts = [f'name="{name}"\r\n\r\n{value}' for name, value in (LIBRE | fields).items()]
        parts.append('name="file"; filename="a.html"\r\n\r\n<p>a <i>cat</i>, a dog</p><p>a cat</p>')
        body = "".join(f"--x\r\nContent-Disposition: form-data; {part}\r\n" for part in parts) + "--x--\r\n"
        answer = served.post_bytes(body.encode(), "multipart/form-data; boundary=x", "/translate_file")
        assert answer.status == 200, answer.body
        path = answer.json["translatedFileUrl"].partition(f":{served.port}")[2]
        return served.get(path).body.decode(), answer.json["notes"]

    with service(Placing(), glossary=GlossaryFile(file, ONE)) as (served, _):
        html, notes = sent()
        assert html.count("Katze") == 2
        assert notes == ["a.de.html: 1 of 3 glossary terms was not inserted: dog"]
        html, notes = sent(glossary=json.dumps({"dog": "Hund", "cat": "no"}))
        assert "Hund" in html and "Katze" not in html
        assert notes == ["a.de.html: 2 of 3 glossary terms were not inserted: cat"]


@pytest.mark.parametrize(
    ("glossary", "words"),
    [
        ({f"{i}": "x" for i in range(101)}, "glossary: Dictionary should have at most 100 items"),
        ({"x" * 201: "x"}, "glossary: String should have at most 200 characters"),
        ({"x": ["y"]}, "glossary: Input should be a valid string"),
        ([["x", "y"]], "glossary: expected a JSON object of terms, such as {"),
        ("terms.tsv", "glossary: expected a JSON object of terms, such as {"),
        ({"cat|cats": "Katze", "cats": "Kater"}, "glossary: 'cats' has two translations, 'Katze' and 'Kater'"),
        ({"cat": "x|" * 19 + "x", "dog": "x|" * 20 + "x"}, "glossary: 'x|x|"),
        ({"cat": " "}, "glossary: empty term or form: 'cat'"),
    ],
)
@pytest.mark.parametrize("others", [{"text": "a cat"}, {"q": "a cat"} | LIBRE])
def test_glossaries_that_are_refused(refusing: Any, glossary: Any, words: str, others: dict[str, str]) -> None:
    answer = refusing.post({"glossary": glossary} | others)
    assert answer.status == 400 and answer.json["error"].startswith(words) and "\n" not in answer.json["error"]


@pytest.fixture(scope="module")
def refusing() -> Iterator[Any]:
    with service(Placing()) as (served, _):
        yield served


def test_the_largest_glossary_is_accepted() -> None:
    """Also beside the largest text, and in each kind of body."""
    letters = ["\U0001f600" * 197 + f"{i:03}" for i in range(100)]
    fields: dict[str, Any] = {"q": "\U0001f600" * 50, "glossary": dict.fromkeys(letters, letters[0])} | LIBRE
    with service(Placing(), RequestLimits(characters=50)) as (served, _):
        assert served.post(fields).status == 200
        form = "&".join(f"{name}={quote(value if name != 'glossary' else json.dumps(value, ensure_ascii=False))}"
                        for name, value in fields.items())  # fmt: skip
        assert served.post_bytes(form.encode(), "application/x-www-form-urlencoded").status == 200
        fields["glossary"]["cat"] = "x"
        assert served.post(fields).status == 400


def test_a_model_of_several_pairs_has_glossaries_of_requests_only(file: Path) -> None:
    several = LanguagePairs((LanguagePair("en", "de"), LanguagePair("en", "fr")))
    with pytest.raises(NmtError, match=r"^--glossary: this model has several language pairs: send "):
        GlossaryFile(file, several)


def test_a_model_without_alignment_needs_to_have_learned_terms(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Placing()
    monkeypatch.setattr(translator.engine, "aligns", False)
    with pytest.raises(NmtError, match=r"^--glossary: this model cannot use a glossary"):
        BatchingQueue(translator, 20, GlossaryFile(file, ONE))
    with service(translator) as (served, _):
        answer = served.post({"text": "a cat", "glossary": {"cat": "Katze"}})
        assert (answer.status, answer.json) == (400, {"error": "glossary: this model cannot use one: leave it out"})
        assert served.post({"text": "a cat", "glossary": {}}).status == 200
    monkeypatch.setattr(type(translator.vocabulary.source), "tag", {"<term>": 7}.get)  # it learned terms
    queue = BatchingQueue(translator, 20, GlossaryFile(file, ONE))
    assert text_of(queue, "a cat") == "A Katze"
    queue.close()


def test_an_endpoint_takes_no_glossary(file: Path, tmp_path: Path) -> None:
    path = endpoints.write(tmp_path, "http://127.0.0.1:1/v1")
    with pytest.raises(NmtError, match=r"^--glossary: this model cannot use a glossary"):
        open_queue(path, "auto", (), 10, file)
    queue, languages = open_queue(path, "auto", (), 10)
    with service_of(queue, languages, RequestLimits()) as served:
        assert served.post({"text": "a cat", "glossary": {"cat": "Katze"}}).status == 400
