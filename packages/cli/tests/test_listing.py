"""The list of Tasks: its order, its filters, and its rows at every width."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
import pytest_asyncio
import typer
from rich.cells import cell_len

from agentic_kernel import Dispatch, InvalidValue, Kill, Task, TaskNotFound, apply
from agentic_kernel_cli import listing, place, rendering, rows
from agentic_kernel_cli.costs import Used
from agentic_kernel_cli.listing import found
from agentic_kernel_cli.naming import LAST
from agentic_kernel_cli.parameters import wanted
from agentic_kernel_cli.place import find_task
from agentic_kernel_engine import Host, MemoryStore, Record

NOW = datetime.now(UTC)


def record(id: str, minutes: float = 0, *, parent: str | None = None, **fields: Any) -> Record:
    """A Task that was killed, and was created so many minutes ago."""
    made = NOW - timedelta(minutes=minutes)
    given = {"summary": f"summary of {id}", "instructions": "do it", "runtime_kind": "local"}
    task = Task.new(id=id, at=made, **{**given, **fields})
    for mutation in (Dispatch(), Kill()):
        task = apply(task, mutation, made)
    return Record(task, parent=parent)


def running(id: str, owner: str | None) -> Record:
    task = Task.new(id=id, summary="", instructions="do it", runtime_kind="local", at=NOW)
    return Record(apply(task, Dispatch(), NOW), owner=owner)


@pytest_asyncio.fixture
async def host() -> AsyncIterator[Host]:
    host = Host(store=MemoryStore())
    yield host
    await host.close()


async def keep(host: Host, *records: Record) -> None:
    for each in records:
        await host.store.insert(each)


def ids(listed: listing.Listed) -> list[str]:
    return [each.task.id for each in listed.records]


async def test_the_newest_is_first_and_a_page_goes_on_after_a_task(host: Host) -> None:
    await keep(host, record("old", 9), record("new", 1), record("middle", 5))
    first = await found(host, {}, None, None, 2)
    assert (ids(first), first.ended) == (["new", "middle"], False)
    assert first.last is not None
    rest = await found(host, {}, None, first.last.id, 2)
    assert (ids(rest), rest.ended) == (["old"], True)
    exact = await found(host, {}, None, None, 3)
    assert exact.ended, "a full last page is the end as well"


async def test_a_text_is_found_in_everything_that_a_person_wrote(host: Host) -> None:
    await keep(
        host,
        record("pay-INVOICE-7", 1),
        record("b", 2, instructions="Check the invoice."),
        record("c", 3, summary="An Invoice"),
        record("d", 4),
    )
    assert ids(await found(host, {}, "invoice", None, 10)) == ["pay-INVOICE-7", "b", "c"]
    cut = await found(host, {}, "invoice", None, 2)
    assert (ids(cut), cut.ended) == (["pay-INVOICE-7", "b"], False)


async def test_a_search_says_how_far_it_looked(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "FAR", 3)
    monkeypatch.setattr(listing, "_PAGE", 2)
    await keep(host, *(record(f"t{n}", n) for n in range(6)))
    listed = await found(host, {}, "t5", None, 10)
    assert (ids(listed), listed.looked, listed.ended) == ([], 3, False)
    assert listed.last is not None
    assert listed.last.id == "t2"
    assert ids(await found(host, {}, "t5", "t2", 10)) == ["t5"]


async def test_a_task_that_no_living_process_runs_is_known(host: Host) -> None:
    await host.store.join("alive")
    await keep(host, running("left", None), running("dead", "gone:1"), running("here", "alive:1"))
    listed = await found(host, {}, None, None, 10)
    assert set(listed.lost) == {"left", "dead"}


@pytest.mark.parametrize("part", ["task-one", "task-o", "sk-one-x", "task-one-x"])
async def test_an_id_is_found_by_either_end(host: Host, part: str) -> None:
    await keep(host, record("task-one-x", 1), record("task-two-y", 2))
    assert (await find_task(host, part)).task.id == "task-one-x"


async def test_a_part_of_an_id_that_fits_several_or_is_too_short_says_so(host: Host) -> None:
    await keep(host, record("first-same-end", 1), record("other-same-end", 2))
    with pytest.raises(InvalidValue, match="first-same-end, other-same-end; give more"):
        await find_task(host, "same-end")
    with pytest.raises(InvalidValue, match="has only 4 characters; give at least 6"):
        await find_task(host, "firs")
    for missing in ("none", "nothing-like-it"):
        with pytest.raises(TaskNotFound):
            await find_task(host, missing)


async def test_the_end_of_an_id_is_looked_for_among_so_many_tasks(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "FAR", 4)
    monkeypatch.setattr(place, "_PAGE", 2)
    await keep(host, *(record(f"{n}-the-end", n) for n in range(5)))
    assert (await find_task(host, "3-the-end")).task.id == "3-the-end"
    await keep(host, record("9-far-away", 99))
    with pytest.raises(TaskNotFound):
        await find_task(host, "-far-away")


async def test_the_newest_task_stands_for_an_id(host: Host) -> None:
    with pytest.raises(InvalidValue, match="there is no Task yet"):
        await find_task(host, LAST)
    await keep(host, record("old", 2), record("new", 1))
    assert (await find_task(host, wanted(None, True))).task.id == "new"
    await keep(host, record("child", 0, parent="new"))
    assert (await find_task(host, LAST)).task.id == "new"
    assert wanted("id", False) == "id"
    for given, last in (("id", True), (None, False)):
        with pytest.raises(typer.BadParameter):
            wanted(given, last)


async def test_children_alone_have_no_last_task(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "FAR", 7)
    monkeypatch.setattr(place, "_PAGE", 1)
    await keep(host, record("far", 9), *(record(f"child-{n}", n, parent="x") for n in range(7)))
    with pytest.raises(InvalidValue, match="the newest 7 Tasks are all children"):
        await find_task(host, LAST)
    monkeypatch.setattr(place, "FAR", 8)
    assert (await find_task(host, LAST)).task.id == "far"


class Screen(rendering.Paper):
    """A terminal of some width that keeps what it shows."""

    def __init__(self, width: int) -> None:
        super().__init__(width=width, force_terminal=True, color_system=None, record=True)


def shown(
    width: int,
    *records: Record,
    lost: Mapping[str, str] = MappingProxyType({}),
    used: Mapping[str, Used] = MappingProxyType({}),
) -> list[str]:
    screen = Screen(width)
    with screen.capture() as captured:
        rows.show(screen, records, lost, NOW, used)
    return captured.get().splitlines()


PARENT = "01a212e3-1616-7a44-8a66-971b2d0666c3"
FAMILY = (
    record("01a212e3-2c23-761d-a5a8-35c00b132a72", 1, summary="s" * 300),
    record("01a212e3-2021-71fb-9b7b-0020075587e3", 2, parent=PARENT, summary="child"),
    record(PARENT, 3, summary="漢字" * 100),
)


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_no_id_is_cut_and_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = shown(width, *FAMILY, running("left", None), lost={"left": "recover it"})
    text = "\n".join(lines)
    for each in FAMILY:
        assert each.task.id in text
    assert max(map(cell_len, lines)) <= width
    assert "no process runs it; recover it" in text
    assert "3 min ago" in text
    assert len(lines) == (6 if width >= rows.WIDE else 9)


@pytest.mark.parametrize("width", [60, 120])
def test_children_stand_below_their_parent(width: int) -> None:
    lines = [line for line in shown(width, *FAMILY) if "01a212e3" in line]
    assert [line.lstrip(" └")[:23] for line in lines] == [
        "01a212e3-2c23-761d-a5a8", "01a212e3-1616-7a44-8a66", "01a212e3-2021-71fb-9b7b",
    ]  # fmt: skip
    assert lines[2].startswith("└ ")


USED = {PARENT: Used(1_200, 34, 0.01234), FAMILY[0].task.id: Used(950, 0, 4.5)}


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_the_cost_of_a_task_is_beside_it(width: int) -> None:
    lines = shown(width, *FAMILY, used=USED)
    assert max(map(cell_len, lines)) <= width
    place = next(at for at, line in enumerate(lines) if line.startswith(PARENT))
    assert "0.0123" in lines[place if width >= rows.WIDE else place + 1]
    text = "\n".join(lines)
    assert "4.50" in text
    assert "COST" not in "\n".join(shown(width, *FAMILY)), "without a cost there is no column"


def test_a_family_may_be_deep_and_a_circle_is_shown() -> None:
    deep = [record("t0", 5_000)]
    deep += [record(f"t{n}", 5_000 - n, parent=f"t{n - 1}") for n in range(1, 3_000)]
    assert len(shown(60, *reversed(deep))) == 6_000
    itself = record("self", parent="self")
    assert len(shown(120, itself)) == 2


def test_an_id_longer_than_the_terminal_is_whole() -> None:
    long = "x" * 300
    for width in (60, 120):
        assert long in "\n".join(shown(width, record(long, 1)))


@pytest.mark.parametrize(
    ("passed", "told"),
    [
        (0.2, "now"), (-5, "now"), (59, "59 s ago"), (60, "1 min ago"), (7_300, "2 h ago"),
        (3 * 86_400, "3 d ago"),
    ],
)  # fmt: skip
def test_a_time_is_told_in_its_largest_unit(passed: float, told: str) -> None:
    assert rows.ago(NOW - timedelta(seconds=passed), NOW) == told


def test_a_time_long_ago_is_a_date() -> None:
    assert rows.ago(datetime(2020, 5, 17, 12, tzinfo=UTC), NOW) == "2020-05-17"
