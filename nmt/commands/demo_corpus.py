"""Generates an English-German parallel corpus with exact references from a small grammar, to try nmt with.

The German needs more than word-by-word translation: gender and case, adjective endings, the verb in second or last
position, separable verbs, the unit before the ten, `halb vier` for `half past three`. The simple past becomes the
perfect.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nmt.errors import NmtError
from nmt.files import atomic

SIZES = {"train": 40_000, "validation": 500, "test": 500}  # pairs


class Phrase(NamedTuple):  # the same text in English and German
    en: str
    de: str


def rows(table: str) -> list[Any]:
    """The fields of each row. A semicolon ends a row, a space a field; `_` is a space in a field, `-` an empty
    field."""
    fields = [row.split() for row in table.split(";")]
    return [[field.replace("_", " ").removeprefix("-") for field in row] for row in fields]


def phrases(table: str) -> list[Phrase]:
    return [Phrase(*row) for row in rows(table)]


NOTHING = Phrase("", "")
SUBJECTS = phrases("he er; she sie; Anna Anna; Maria Maria; Thomas Thomas; Peter Peter")
# Nouns with their articles, which show their gender.
PEOPLE = phrases("man der_Mann; woman die_Frau; child das_Kind; teacher der_Lehrer; doctor der_Arzt")
THINGS = phrases("table der_Tisch; lamp die_Lampe; car das_Auto; jacket die_Jacke; book das_Buch; dog der_Hund")
DETERMINERS = phrases("the -; a ein; my mein; our unser")
ADJECTIVES = phrases("- -; old alt; young jung; famous berühmt; beautiful schön; big groß; small klein; new neu")
PLACES = phrases("- -; in_the_hotel im_Hotel; in_the_garden im_Garten; in_the_school in_der_Schule")
# The kind of complement; in English: infinitive, present and past of `he`; in German: the present, the separable prefix
# that ends its clause, the infinitive, the auxiliary of the perfect and the participle.
VERBS = rows("""
    thing buy buys bought kauft - kaufen hat gekauft; thing sell sells sold verkauft - verkaufen hat verkauft;
    thing look_for looks_for looked_for sucht - suchen hat gesucht; thing find finds found findet - finden hat gefunden;
    person visit visits visited besucht - besuchen hat besucht; person call calls called ruft an anrufen hat angerufen;
    person invite invites invited lädt ein einladen hat eingeladen; person pick_up picks_up picked_up holt ab abholen
    hat abgeholt; place work works worked arbeitet - arbeiten hat gearbeitet; place sing sings sang singt - singen hat
    gesungen; place sleep sleeps slept schläft - schlafen hat geschlafen; place wait waits waited wartet - warten hat
    gewartet; alone depart departs departed fährt ab abfahren ist abgefahren; alone get_up gets_up got_up steht auf
    aufstehen ist aufgestanden""")
MODALS = {"will": "wird", "can": "kann", "must": "muss"}
TIMES = {
    "past": phrases("yesterday gestern; last_week letzte_Woche; yesterday_evening gestern_Abend"),
    "present": phrases("today heute; every_day jeden_Tag; this_evening heute_Abend"),
}
LATER = phrases("tomorrow morgen; next_week nächste_Woche; soon bald")
CONJUNCTIONS = phrases("because weil; although obwohl; if wenn; while während")
NUMBERS = dict(zip([*range(20), *range(20, 100, 10)], phrases("""zero null; one eins; two zwei; three drei; four vier;
    five fünf; six sechs; seven sieben; eight acht; nine neun; ten zehn; eleven elf; twelve zwölf; thirteen dreizehn;
    fourteen vierzehn; fifteen fünfzehn; sixteen sechzehn; seventeen siebzehn; eighteen achtzehn; nineteen neunzehn;
    twenty zwanzig; thirty dreißig; forty vierzig; fifty fünfzig; sixty sechzig; seventy siebzig; eighty achtzig; ninety
    neunzig"""), strict=True))  # fmt: skip
# Every five minutes from the full hour; German counts to the next half hour. h: the hour; n: the next hour.
CLOCK = phrases("""{h}_o'clock {h}_Uhr; five_past_{h} fünf_nach_{h}; ten_past_{h} zehn_nach_{h}; quarter_past_{h}
    Viertel_nach_{h}; twenty_past_{h} zwanzig_nach_{h}; twenty-five_past_{h} fünf_vor_halb_{n}; half_past_{h} halb_{n};
    twenty-five_to_{n} fünf_nach_halb_{n}; twenty_to_{n} zwanzig_vor_{n}; quarter_to_{n} Viertel_vor_{n}; ten_to_{n}
    zehn_vor_{n}; five_to_{n} fünf_vor_{n}""")


def join(*parts: str) -> str:
    return " ".join(filter(None, parts))


def number(n: int, *, before_noun: bool = False) -> Phrase:
    """0 to 999,999: `one thousand and twenty-one`, `eintausendeinundzwanzig`. before_noun: German `ein` instead of
    `eins`."""
    if n in NUMBERS:
        return Phrase("one", "ein") if n == 1 and before_noun else NUMBERS[n]
    if n < 100:
        unit, ten = number(n % 10, before_noun=True), NUMBERS[n - n % 10]
        return Phrase(f"{ten.en}-{unit.en}", f"{unit.de}und{ten.de}")
    size, english, german = (1000, "thousand", "tausend") if n >= 1000 else (100, "hundred", "hundert")
    head, rest = number(n // size, before_noun=True), number(n % size, before_noun=before_noun) if n % size else NOTHING
    return Phrase(join(head.en, english, "and" if 0 < n % size < 100 else "", rest.en), head.de + german + rest.de)


def clock(mark: int) -> Phrase:
    """The time at one of the 144 marks, every five minutes from one o'clock."""
    hour, form = mark // 12 + 1, CLOCK[mark % 12]
    now, following = number(hour, before_noun=mark % 12 == 0), number(hour % 12 + 1)
    return Phrase(form.en.format(h=now.en, n=following.en), form.de.format(h=now.de, n=following.de))


def noun_phrase(determiner: Phrase, adjective: Phrase, noun: Phrase, *, accusative: bool) -> Phrase:
    """`my old table`, and `mein alter Tisch` or `meinen alten Tisch`."""
    article, german = noun.de.split()
    ending = {"der": "er", "die": "e", "das": "es"}[article] if determiner.de else "e"
    if accusative and article == "der":
        article, ending = "den", "en"
    if determiner.de:
        article = determiner.de + {"den": "en", "die": "e"}.get(article, "")
    words = join(adjective.en, noun.en)
    before = "an" if determiner.en == "a" and words[0] in "aeiou" else determiner.en
    return Phrase(join(before, words), join(article, adjective.de and adjective.de + ending, german))


def clause(order: str, tense: str, subject: Phrase, verb: Sequence[str], complement: Phrase, time: Phrase) -> Phrase:
    """A clause in both languages. order: `main`, `question`, `subordinate`, or `inverted` after an element before the
    German verb."""
    _, base, present, past, finite, closing, infinitive, auxiliary, participle = verb
    predicate = {"present": present, "past": past}.get(tense, f"{tense} {base}")
    english = join(subject.en, predicate)
    if order == "question":
        english = join({"present": "does", "past": "did"}.get(tense, tense), subject.en, base)
    if tense != "present":
        finite, closing = (auxiliary, participle) if tense == "past" else (MODALS[tense], infinitive)
    if order == "subordinate":  # weil er ... abholt, weil er ... abgeholt hat
        start, closing = subject.de, closing + ("" if tense == "present" else " ") + finite
    else:
        start = f"{subject.de} {finite}" if order == "main" else f"{finite} {subject.de}"
    return Phrase(join(english, complement.en, time.en), join(start, time.de, complement.de, closing))


class SentenceGenerator(random.Random):
    """Random draws with `random()` only, the one method whose numbers never change in new versions of Python."""

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.random() * len(items))]

    def noun(self, nouns: Sequence[Phrase], *, accusative: bool) -> Phrase:
        return noun_phrase(self.pick(DETERMINERS), self.pick(ADJECTIVES), self.pick(nouns), accusative=accusative)

    def clause(self, order: str, tense: str, time: Phrase = NOTHING) -> Phrase:
        verb, subject = self.pick(VERBS), self.pick((self.pick(SUBJECTS), self.noun(PEOPLE, accusative=False)))
        complement = {
            "thing": self.noun(THINGS, accusative=True), "person": self.noun(PEOPLE, accusative=True),
            "place": self.pick(PLACES), "alone": NOTHING,
        }[verb[0]]  # fmt: skip
        return clause(order, tense, subject, verb, complement, time)

    def sentence(self) -> Phrase:
        """A main clause, sometimes with its time first, as in `Tomorrow, Anna will` (`Morgen wird Anna`), or a
        question."""
        tense, order = self.pick(("present", "past", *MODALS)), self.pick(("main", "main", "question", "inverted"))
        at = clock(self.pick(range(144)))
        time = self.pick((Phrase(f"at {at.en}", f"um {at.de}"), *TIMES.get(tense, LATER)))
        if order == "inverted":
            rest = self.clause(order, tense)
            return Phrase(f"{time.en}, {rest.en}", f"{time.de} {rest.de}")
        clause = self.clause(order, tense, self.pick((time, time, NOTHING)))
        return Phrase(f"{clause.en}?", f"{clause.de}?") if order == "question" else clause

    def two_clauses(self) -> Phrase:
        """A main clause and a subordinate clause, whose verb comes last: `Anna singt, weil sie ... hat`."""
        word, tense = self.pick(CONJUNCTIONS), self.pick(("present", "past"))
        under = self.clause("subordinate", tense)
        english, german = f"{word.en} {under.en}", f"{word.de} {under.de}"
        if self.random() < 0.6:
            main = self.clause("main", tense)
            return Phrase(f"{main.en} {english}", f"{main.de}, {german}")
        main = self.clause("inverted", tense)
        return Phrase(f"{english}, {main.en}", f"{german}, {main.de}")

    def short(self) -> Phrase:
        """A number, a price or a time."""
        value, time = number(self.pick(range(10 ** self.pick(range(1, 7))))), clock(self.pick(range(144)))
        euros, cents = number(self.pick(range(2, 100))), number(self.pick(range(2, 100)))
        price = Phrase(f"{euros.en} euros and {cents.en} cents", f"{euros.de} Euro und {cents.de} Cent")
        return self.pick((value, price, Phrase(f"it is {time.en}", f"es ist {time.de}")))


def pairs(seed: int, most: int = 1) -> Iterator[Phrase]:
    """Endless pairs of 1 to `most` sentences. No text comes twice on either side."""
    generator, seen = SentenceGenerator(seed), set[str]()
    while True:
        english, german = list[str](), list[str]()
        for _ in range(generator.pick(range(1, most + 1))):
            pair = generator.pick((generator.sentence, generator.sentence, generator.two_clauses, generator.short))()
            for texts, text in ((english, pair.en), (german, pair.de)):
                texts.append(text[0].upper() + text[1:] + ("" if text.endswith("?") else "."))
        line = Phrase(" ".join(english), " ".join(german))
        if seen.isdisjoint(line):
            seen.update(line)
            yield line


def write(folder: Path, sizes: Mapping[str, int] = SIZES, seed: int = 1, sentences: int = 1) -> None:
    """Write `train.en`, `train.de` and so on into a folder, with `sizes` pairs of 1 to `sentences` sentences. A file
    with the same content stays.

    Raises NmtError before anything is written if a file has other content, and for files that cannot be written.
    """
    lines, generator, files = (
        list(islice(pairs(seed, sentences), sum(sizes.values()))),
        SentenceGenerator(seed),
        dict[Path, bytes](),
    )
    # Shuffled, because short sentences become rare: late pairs differ from early ones.
    lines.sort(key=lambda _: generator.random())
    for split, size in sizes.items():
        files[folder / f"{split}.en"] = "".join(f"{pair.en}\n" for pair in lines[:size]).encode()
        files[folder / f"{split}.de"] = "".join(f"{pair.de}\n" for pair in lines[:size]).encode()
        lines = lines[size:]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            if path.exists() and path.read_bytes() != content:
                raise NmtError(f"{path}: exists with other content: move it away, or work in another folder")
        for path, content in files.items():
            if not path.exists():
                with atomic.replacing(path) as unfinished:
                    unfinished.write_bytes(content)
    except OSError as error:
        raise NmtError(f"{folder}: the demo corpus cannot be written: {error.strerror}") from None
