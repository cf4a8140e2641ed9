"""A history is read into a transcript, with the places at which a compaction may cut it."""

from __future__ import annotations

from agentic_kernel_engine.cursor import EventId
from agentic_kernel_engine.events import Event
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.plans.transcript import Entry, Notice, Transcript, read


def reflected(version: int, index: int) -> Event:
    return Event(
        vocabulary.RUN_REFLECTED, {"text": f"{version}.{index}"}, id=EventId(version, index)
    )


def test_a_history_may_be_cut_between_commits_and_not_inside_one() -> None:
    """A cut names an event; the entries up to it must be whole commits."""
    opening = [Notice("opening")]
    found = read([reflected(2, 0), reflected(2, 1), reflected(3, 0), reflected(5, 0)], opening)
    assert [entry.text for entry in found if isinstance(entry, Notice)] == [
        "opening", "2.0", "2.1", "3.0", "5.0"
    ]  # fmt: skip
    assert list(found.cuts) == [(3, (2, 1)), (4, (3, 0)), (5, (5, 0))]


def test_an_entry_is_converted_once_for_each_form_and_again_after_a_cut() -> None:
    asked: list[tuple[int, str]] = []

    def length(place: int, entry: Entry) -> int:
        assert isinstance(entry, Notice)
        asked.append((place, entry.text))
        return len(entry.text)

    transcript = Transcript([Notice("a"), Notice("bb")])
    assert list(transcript.in_form("length", length)) == [1, 2]
    transcript.append(Notice("ccc"))
    assert list(transcript.in_form("length", length)) == [1, 2, 3]
    assert asked == [(0, "a"), (1, "bb"), (2, "ccc")]
    assert list(transcript.in_form("other", lambda place, _: place)) == [0, 1, 2]
    transcript.cut_back(1)
    transcript.append(Notice("dddd"))
    assert list(transcript.in_form("length", length)) == [1, 4]
