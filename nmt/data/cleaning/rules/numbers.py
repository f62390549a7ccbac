"""Find the numbers in the two sides of a pair that are missing on the other side.

Languages write the same number in many ways: `1,500,000`, `15,00,000`, `1.500.000`, `150万` and `1.5 million`; `3 p.m.`
and `15 Uhr`; `6/12/2018`, `12. Juni 2018` and `12.6.2018`; `the 1980s` and `die 80er`; `85 mph` and `137 km/h`. Each of
these is a rule below. A rule that could match any two numbers, such as numbers 12 apart, requires a sign in the text: a
time of day, a unit.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cached_property, partial
from itertools import product

from nmt.config.language_codes import base

# Swahili, Amharic, Tigrinya, Oromo and Ganda.
_EAST_AFRICAN = {"sw", "swa", "swh", "am", "amh", "ti", "tir", "om", "orm", "gaz", "lg", "lug"}
_LONGEST = 18  # digits of a number that are compared
_MOST = 100  # numbers left on a side that are compared one by one
# Digits with separators: `1,234.5`, `1'234`, `29.9.1918`; groups of three may have spaces between them.
_NUMBER = re.compile(r"(?<!\d)(?<!\d )\d{1,3}(?: \d{3})+(?![\d.,]?\d)(?! \d)|\d+(?:[.,'’٫٬\u00a0\u202f]\d+)*")
_SEPARATOR = re.compile(r"\D")
# One number and not several: with one decimal separator, or in groups of three, of four, or as in India of two.
_DECIMAL = r"(?:\D\d+)?"
_ONE_NUMBER = re.compile(
    rf"\d+{_DECIMAL}|\d{{1,3}}(?:(\D)\d{{3}})(?:\1\d{{3}})*{_DECIMAL}|\d{{1,2}}(?:,\d{{2}})+,\d{{3}}{_DECIMAL}"
    rf"|\d{{1,4}}(?:,\d{{4}})+{_DECIMAL}"
)
# `3万5千` is 35,000: after 10⁴, 10⁸ and 10¹² there are four digits.
_THOUSANDS = re.compile(r"(?<=\d) ?[千천]")
_MYRIADS = re.compile(r"(?<=\d) ?[万萬만億亿억兆조] ?(\d,\d{3}|\d{1,4})(?![\d,.])")

_TIME_AFTER = re.compile(r"\s?(?:[ap]\.?\s?m\b|:\d\d(?!\d)|uhr\b|o['’]clock|h(?=\d|\b)|[时時点點시]|час|годин)", re.I)
_DEGREE = 5 / 9
# Units, after digits or anywhere, and by what numbers with them are multiplied: an inch in cm and mm; a foot in m and
# cm, a yard in m; a mile in km, a mile per hour in m/s; a pound in kg, an ounce in g, a stone in kg; a gallon and a
# pint in litres, an acre in hectares; a difference of degrees Fahrenheit in degrees Celsius.
_UNITS = {
    re.compile(rf"\d[\s\u00a0-]?(?:{after_digits})|{anywhere}", re.IGNORECASE): factors
    for after_digits, anywhere, factors in (
        (
            r"[cm]m\b|inch|[см]м\b|厘米|毫米|英寸|[סמ]\W?מ\b",
            r"(?:[csz][ea]nt|mill?)[ií]m|(?:санти|милли)м|سانت|سنت[يی]م|م[يی]ل[يی] ?م|センチ|ミリ|센티|밀리|सेंटी|मिली",
            (2.54, 25.4),
        ),
        (r"c?m\b|ft\b|yds?\b|foot|feet|yard|с?м\b|英尺", r"\bmet[er]r|метр", (0.3048, 30.48, 0.9144)),
        (
            r"km/?h?\b|[km]ph\b|mile|км\b|公里|英里|ק\W?מ",
            r"[ck]h?il[oó]m|килом|[كک][يی]لوم|キロ|킬로|किलोम",
            (1.609344, 0.44704),
        ),
        (
            r"k?g\b|lbs?\b|oz\b|pound|stone\b|ounce|кг\b|公斤|磅",
            r"[ck]h?ilo(?:g|s?\b)|килог",
            (0.45359237, 28.35, 6.35),
        ),
        (r"gallon|pint|acre|ha\b", r"he[ck]tar|гектар|lit(?:re|er|ro)", (3.785, 0.568, 0.4047)),
        (r"°|º|degr|grad|град|מעלות|درج|डिग्री", r"℃|℉|celsi|fahrenh|цельси|[摄攝华華]氏", (_DEGREE,)),
    )
}
# By how much people round what they convert: as a share of the number, and of small ones.
_ROUNDING, _ROUNDING_OF_SMALL, _MOST_ROUNDING_OF_SMALL = 0.04, 0.12, 0.5


class Number:
    """A number in a text."""

    def __init__(self, digits: str, *, is_time: bool = False, before_point: bool = False) -> None:
        """digits: with separators; before_point: whether a point follows it."""
        self.parts = [part[:_LONGEST] for part in _SEPARATOR.split(digits)]  # Python refuses to read thousands
        self.has_spaces, self.is_time, self.before_point = " " in digits, is_time, before_point

    @cached_property
    def key(self) -> int:
        """The digits without separators and without zeros at the end (`1,500,000` is `1.5 million`)."""
        return int("".join(self.parts)[:_LONGEST].rstrip("0") or "0")

    @cached_property
    def values(self) -> list[float]:
        """Its possible values: `1,234` is 1234 or 1.234, and `2,5` is 2.5."""
        whole = float("".join(self.parts)[:_LONGEST])
        if len(self.parts) == 1:
            return [whole]
        decimal = float(f"{''.join(self.parts[:-1])[:_LONGEST]}.{self.parts[-1]}")
        return [whole, decimal] if len(self.parts[-1]) == 3 else [decimal]

    @property
    def may_be_time(self) -> bool:
        """Whether it may be an hour and minutes, such as `17.30`."""
        if len(self.parts) != 2 or len(self.parts[1]) != 2 or len(self.parts[0]) > 2:
            return False
        return int(self.parts[0]) <= 24 and int(self.parts[1]) < 60

    @property
    def may_be_date(self) -> bool:
        """Whether it may be a day and a month, such as `12.6.`, which has a point at its end."""
        if not self.before_point or len(self.parts) != 2 or max(map(len, self.parts)) > 2:
            return False
        low, high = sorted(map(int, self.parts))
        return 1 <= low <= 12 and high <= 31


def find_numbers(text: str) -> list[Number]:
    """The numbers of a text. Zeros alone do not count, because zeros at the end of numbers are ignored."""
    if not text.isascii():
        text = re.sub(r"\d", lambda digit: str(unicodedata.decimal(digit[0])), text)
        text = _THOUSANDS.sub("000", text)
        for _ in range(2):  # one after 10⁸, and then one after 10⁴
            text = _MYRIADS.sub(lambda match: match[1].replace(",", "").zfill(4), text)
    numbers: list[Number] = []
    for match in _NUMBER.finditer(text):
        digits, rest = match[0], text[match.end() : match.end() + 8]
        is_time = bool(_TIME_AFTER.match(rest))
        number = Number(digits, is_time=is_time, before_point=rest[:1] == ".")
        if (is_time and number.may_be_time) or not _ONE_NUMBER.fullmatch(digits):
            numbers += (Number(part, is_time=is_time) for part in number.parts)
        else:
            numbers.append(number)
    return [number for number in numbers if number.key]


def shifts_of_hours(codes: tuple[str, str]) -> tuple[int, ...]:
    """The differences in hours between forms of the same time in two languages: 12; also 6 for East African languages,
    in which the day begins at sunrise and 7 a.m. is the first hour."""
    return (6, 12, 18) if _EAST_AFRICAN.intersection(map(base, codes)) else (12,)


def unmatched(source: str, target: str, shifts: tuple[int, ...] = (12,)) -> tuple[int, int]:
    """Return the count of numbers that are on one side only, and the count of all numbers. shifts: see
    `shifts_of_hours`.

    A number of one or two digits, without zeros at the end, may be a word on the other side. It counts only if both
    sides have unmatched numbers.
    """
    sides = find_numbers(source), find_numbers(target)
    left, right = _without_common(*sides)
    if left and right and max(len(left), len(right)) <= _MOST:
        left, right = _without_same(left, right, partial(_same_hour, shifts))
        left, right = _without_same(left, right, _same_year)
        left, right = _without_split(left, right, shifts)
        right, left = _without_split(right, left, shifts)
        for unit, factors in _UNITS.items():
            if unit.search(source) or unit.search(target):
                results = [_without_same(left, right, partial(_is_conversion, factor)) for factor in factors]
                left, right = min(results, key=lambda sides: len(sides[0]))  # a text seldom converts in two ways
    if not (left and right):
        left, right = ([number for number in side if number.key > 99] for side in (left, right))
    return len(left) + len(right), sum(map(len, sides))


def _without_common(left: list[Number], right: list[Number]) -> tuple[list[Number], list[Number]]:
    """Both sides without their common numbers. A number is removed as often as it occurs on the other side."""
    common = Counter(number.key for number in left) & Counter(number.key for number in right)
    return _without(left, common.copy()), _without(right, common)


def _without(numbers: list[Number], taken: Counter[int]) -> list[Number]:
    rest = []
    for number in numbers:
        if taken[number.key]:
            taken[number.key] -= 1
        else:
            rest.append(number)
    return rest


def _without_same(
    left: list[Number], right: list[Number], is_same: Callable[[Number, Number], bool]
) -> tuple[list[Number], list[Number]]:
    """Both sides without pairs of numbers with the same meaning."""
    rest, others = [], list(right)
    for number in left:
        match = next((i for i, other in enumerate(others) if is_same(number, other)), None)
        if match is None:
            rest.append(number)
        else:
            del others[match]
    return rest, others


def _same_hour(shifts: tuple[int, ...], first: Number, second: Number) -> bool:
    """3 p.m. is 15 Uhr."""
    if not (first.is_time or second.is_time) or len(first.parts) > 1 or len(second.parts) > 1:
        return False
    low, high = sorted((int(first.parts[0]), int(second.parts[0])))
    return high <= 24 and high - low in shifts


def _same_year(first: Number, second: Number) -> bool:
    """The 1980s are the 80s; the 19th century is 1800-talet in the Nordic languages."""
    if len(first.parts) > 1 or len(second.parts) > 1:
        return False
    short, long = sorted((first.parts[0], second.parts[0]), key=len)
    if len(short) != 2 or len(long) != 4:
        return False
    return 1000 <= int(long) < 2100 and (short == long[2:] or int(long) == 100 * (int(short) - 1))


def _without_split(
    left: list[Number], right: list[Number], shifts: tuple[int, ...]
) -> tuple[list[Number], list[Number]]:
    """Without numbers of the left whose parts are numbers of the right: `12.6.` is June 12, `17.30` is 5:30 p.m., and
    `10 500` may be a ten and a five hundred."""
    rest, others = [], list(right)
    for number in left:
        parts = [Number(part, is_time=number.is_time) for part in number.parts]
        parts = [part for part in parts if part.key]
        unknown, remaining = _without_common(parts, others)
        if number.may_be_time:
            unknown, remaining = _without_same(unknown, remaining, partial(_same_hour, shifts))
        has_parts = number.may_be_date or number.may_be_time or number.has_spaces
        if number.may_be_date and len(unknown) == 1 and len(parts) == 2 and int(unknown[0].parts[0]) <= 12:
            unknown = []  # the other side has the month's name
        if len(parts) > 1 and has_parts and not unknown:
            others = remaining
        else:
            rest.append(number)
    return rest, others


def _is_conversion(factor: float, first: Number, second: Number) -> bool:
    """80 °F is 27 °C, and 10 inches are 25 cm, both rounded as people do."""
    pairs = product(first.values, second.values)
    return any(_converts(factor, a, b) or _converts(factor, b, a) for a, b in pairs)


def _converts(factor: float, value: float, other: float) -> bool:
    exact = [value * factor] if factor != _DEGREE else [value * factor, (value - 32) * factor]
    rounding = max(_ROUNDING * other, min(_ROUNDING_OF_SMALL * other, _MOST_ROUNDING_OF_SMALL))
    return any(abs(other - converted) <= rounding for converted in exact)
