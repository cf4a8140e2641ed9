"""Numbers: cards, phone numbers and national ids among the digits of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_DIGITS: Final = re.compile(rb"[0-9]+")
_BETWEEN: Final = frozenset(b" \t\n\r-./()_")
_FARTHEST: Final = 3
"""The most characters between two groups of digits of one number."""
LONGEST: Final = 19
"""The most digits of a number that is looked for."""


class Group(NamedTuple):
    """Digits that stand together."""

    start: int
    end: int
    digits: str
    before: bytes
    """The characters between the group before it and this one."""


def numbers(data: bytes) -> Iterator[tuple[int, int, str]]:
    """The place and the kind of each card, phone number and national id."""
    for run in _runs(data):
        if sum(len(group.digits) for group in run) >= 7:
            yield from _cards(run)
            yield from _phones(run, data)
            yield from _ids(run, data)


def _runs(data: bytes) -> Iterator[list[Group]]:
    """The groups of digits, with those together that only a few signs keep apart."""
    run: list[Group] = []
    end = 0
    for match in _DIGITS.finditer(data):
        start = match.start()
        gap = data[end:start] if start - end <= _FARTHEST else None
        if run and (gap is None or not _BETWEEN.issuperset(gap)):
            yield run
            run = []
        before = gap if run and gap is not None else b""
        end = match.end()
        # A longer group is no number that is looked for; its text would cost time.
        digits = match[0].decode() if end - start <= LONGEST else "x" * (LONGEST + 1)
        run.append(Group(start, end, digits, before))
    if run:
        yield run


def _windows(run: list[Group], least: int, most: int) -> Iterator[tuple[int, int, str]]:
    """The first and the last group of each series with a number of digits.

    A series that begins with one or two digits begins where its run does; see `_grouped`.
    """
    for first in range(len(run)):
        if first and len(run[first].digits) < 3:
            continue
        digits = ""
        for last in range(first, min(len(run), first + most)):
            digits += run[last].digits
            if len(digits) > most:
                break
            if len(digits) >= least:
                yield first, last, digits


def _cards(run: list[Group]) -> Iterator[tuple[int, int, str]]:
    for first, last, digits in _windows(run, 13, LONGEST):
        if _network(digits) and luhn(digits) and _grouped(run, first, last):
            yield run[first].start, run[last].end, "card"


def _network(digits: str) -> bool:
    return digits[0] in "3456" or "2221" <= digits[:4] <= "2720"


def _grouped(run: list[Group], first: int, last: int) -> bool:
    """True if the groups are those of one number, and not a line of a table."""
    if first == last:
        # The digits after a point are a fraction.
        return not (first and run[first].before == b".")
    sizes = [len(group.digits) for group in run[first : last + 1]]
    if sizes in ([4, 6, 5], [4, 6, 4]):
        return True
    if len({*sizes[:-1]}) > 1 or sizes[-1] > sizes[0] + 3:
        return False
    same = len({group.before for group in run[first + 1 : last + 1]}) == 1
    if sizes[0] < 3:
        return same and (first, last) == (0, len(run) - 1)
    return same or sizes[0] == 4


def luhn(digits: str) -> bool:
    """True if the last digit is the check digit of the others (ISO/IEC 7812-1)."""
    odd = sum(map(int, digits[-1::-2]))
    even = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (odd + even) % 10 == 0 and len(set(digits)) > 1


def _phones(run: list[Group], data: bytes) -> Iterator[tuple[int, int, str]]:
    until = -1
    for first, group in enumerate(run):
        if group.start < until:
            continue
        last = _phone(run, first, data)
        if last is not None:
            start = group.start
            while start and data[start - 1] in b"+(":
                start -= 1
            until = run[last].end
            yield start, until, "phone"


def _phone(run: list[Group], first: int, data: bytes) -> int | None:
    """The last group of the phone number that starts with a group, or None."""
    group = run[first]
    sign = data[group.start - 1 : group.start] if group.start else b""
    if sign == b"+" or data[max(0, group.start - 2) : group.start] == b"+(":
        return _upto(run, first, 7, 15)
    if group.start and data[group.start - 1 : group.start].isalnum():
        return None
    digits = group.digits
    if digits.startswith("00") and digits[2:3] not in ("", "0"):
        return _upto(run, first, 10, 17)
    sizes = [len(each.digits) for each in run[first : first + 4]]
    at = first + (sizes[:1] == [1] and digits == "1")
    sizes = [len(each.digits) for each in run[at : at + 3]]
    if sizes == [3, 3, 4] and min(run[at].digits[0], run[at + 1].digits[0]) >= "2":
        return at + 2
    if digits[0] == "0" and digits[1:2] not in ("", "0"):
        if len(digits) in (11, 12) and digits[1] == "1" and digits[2] in "567":
            return first
        if 3 <= len(digits) <= 6 and first + 1 < len(run) and b"." not in run[first + 1].before:
            return _upto(run, first, 8, 13)
    return None


def _upto(run: list[Group], first: int, least: int, most: int) -> int | None:
    """The last group on the same line that a number of so many digits can have."""
    count, last = len(run[first].digits), first
    while last + 1 < len(run) and count + len(run[last + 1].digits) <= most:
        if b"\n" in run[last + 1].before:
            break
        last += 1
        count += len(run[last].digits)
    return last if least <= count <= most else None


_SHAPES: Final = ((3, 2, 4), (11,), (2, 3, 3, 3))
"""The groups of digits of a national id of the US, and of a German tax id."""


def _ids(run: list[Group], data: bytes) -> Iterator[tuple[int, int, str]]:
    sizes = [len(group.digits) for group in run]
    for first in range(len(run)):
        for shape in _SHAPES:
            if sizes[first] != shape[0] or tuple(sizes[first : first + len(shape)]) != shape:
                continue
            groups = run[first : first + len(shape)]
            start, end = groups[0].start, groups[-1].end
            if data[max(0, start - 1) : start].isalpha() or data[end : end + 1].isalpha():
                continue
            digits = "".join(group.digits for group in groups)
            between = {group.before for group in groups[1:]}
            if shape == (3, 2, 4):
                found = _insured_in_the_us(digits, between)
            else:
                found = between <= {b" ", b"-", b"."} and tax_id(digits)
            if found:
                yield start, end, "national id"


def _insured_in_the_us(digits: str, between: set[bytes]) -> bool:
    return (
        len(between) == 1
        and between <= {b"-", b" ", b".", b"/"}
        and digits[:3] not in ("000", "666")
        and digits[3:5] != "00"
        and digits[5:] != "0000"
    )


def tax_id(digits: str) -> bool:
    """True for a German tax id: its check digit is right, and one digit repeats (ISO 7064)."""
    counts = sorted(digits[:10].count(each) for each in set(digits[:10]))
    if digits[0] == "0" or counts[-1] not in (2, 3) or sum(each > 1 for each in counts) != 1:
        return False
    product = 10
    for digit in digits[:10]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[10])
