"""The workspace cannot be left, whatever is swapped for a link, and whenever."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_cli.toolbox import Toolbox
from agentic_kernel_cli.workspace import write_new
from agentic_kernel_engine.seams import ToolError

PARTS = ("one", "two")
"""The folders on the way to the file that is written."""
CREATED = 3
"""The step at which the file itself is opened, after the workspace and both folders."""
RACES = 300


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.joinpath(*PARTS).mkdir(parents=True)
    outside(folder).joinpath(*PARTS).mkdir(parents=True)
    return folder


def outside(workspace: Path) -> Path:
    return workspace.parent / "outside"


def escaped(workspace: Path) -> list[str]:
    """Files anywhere in this test's folder that are not in the workspace."""
    found = []
    for folder, _, files in os.walk(workspace.parent):
        inside = Path(folder).is_relative_to(workspace)
        found += [str(Path(folder) / name) for name in files if not inside]
    return found


def test_a_file_is_its_owners_alone(workspace: Path) -> None:
    before = os.umask(0)
    try:
        write_new(workspace, "one/a.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((workspace / "one" / "a.txt").stat().st_mode) == 0o600


@pytest.mark.parametrize("odd", ["\x1b", "\n", "\x00", "\u202e", "\u2028", "\u3164", "\ud800"])
@pytest.mark.parametrize("shape", ["a{}b", "one/{}/b", "{}"])
def test_a_name_with_what_cannot_be_seen_is_refused(workspace: Path, odd: str, shape: str) -> None:
    with pytest.raises(ValueError, match="cannot be seen"):
        write_new(workspace, shape.format(odd), "x")
    assert [path.name for path in workspace.iterdir()] == ["one"]


def test_what_is_no_text_leaves_no_empty_file(workspace: Path) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        write_new(workspace, "a.txt", "\ud800")
    assert not (workspace / "a.txt").exists()


@pytest.mark.parametrize("target", ["outside/new.txt", "workspace/one/new.txt", "outside"])
def test_a_link_in_the_place_of_the_file_is_never_followed(workspace: Path, target: str) -> None:
    (workspace / "a.txt").symlink_to(workspace.parent / target)
    with pytest.raises(FileExistsError):
        write_new(workspace, "a.txt", "x")
    assert escaped(workspace) == []
    assert not (workspace / "one" / "new.txt").exists()


def swaps(workspace: Path) -> dict[str, Callable[[], Any]]:
    """Ways to put something else in the place of a folder, each done at most once."""
    aside = workspace.parent / "aside"

    def to_link(folder: Path, keep: Path) -> Callable[[], Any]:
        def swap() -> None:
            with suppress(OSError):
                folder.rename(keep)
                folder.symlink_to(outside(workspace))

        return swap

    return {
        "outer": to_link(workspace / "one", workspace / "kept"),
        "inner": to_link(workspace / "one" / "two", workspace / "kept"),
        "outer moved out": to_link(workspace / "one", aside),
        "inner moved out": to_link(workspace / "one" / "two", aside),
        "all": to_link(workspace, aside),
    }


@pytest.mark.parametrize("what", ["outer", "inner", "outer moved out", "inner moved out", "all"])
@pytest.mark.parametrize("step", range(6))
def test_a_folder_swapped_at_any_step_never_leads_out(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, what: str, step: int
) -> None:
    """The swap happens just before the step-th file or folder is opened."""
    box = Toolbox(("write",), workspace)
    swap, opened, opens = swaps(workspace)[what], os.open, 0

    def open_after(*args: Any, **more: Any) -> int:
        nonlocal opens
        if opens == step:
            swap()
        opens += 1
        return opened(*args, **more)

    monkeypatch.setattr(os, "open", open_after)
    with suppress(OSError, ValueError):
        write_new(workspace, "one/two/a.txt", "x", identity=box.identity)
    monkeypatch.setattr(os, "open", opened)
    assert opens > step or step > CREATED, "every step was reached"
    carried = workspace.parent / "aside"
    if what == "all" or step > CREATED:
        # The workspace itself was moved, or a folder that held the file already: not a way out.
        assert [path for path in escaped(workspace) if not path.startswith(f"{carried}/")] == []
    else:
        assert escaped(workspace) == []


def test_a_racing_thread_that_swaps_folders_leads_nobody_out(workspace: Path) -> None:
    over = threading.Event()
    folder, kept = workspace / "one", workspace / "kept"

    def race() -> None:
        while not over.is_set():
            with suppress(OSError):
                folder.rename(kept)
                folder.symlink_to(outside(workspace))
            with suppress(OSError):
                folder.unlink()
                kept.rename(folder)

    racing = threading.Thread(target=race)
    racing.start()
    try:
        written = 0
        for number in range(RACES):
            with suppress(OSError, ValueError):
                write_new(workspace, f"one/two/{number}.txt", "x")
                written += 1
    finally:
        over.set()
        racing.join()
    assert escaped(workspace) == []
    assert len(list(workspace.rglob("*.txt"))) == written


def test_a_workspace_replaced_after_it_was_granted_is_not_written_in(workspace: Path) -> None:
    box = Toolbox(("write",), workspace)
    narrowed = replace(box, names=("write", "calculator"))
    workspace.rename(workspace.parent / "aside")
    workspace.symlink_to(outside(workspace))
    write = narrowed.tools()[0].handler
    with pytest.raises(ToolError, match="not the folder that was granted"):
        write({"path": "a.txt", "content": "x"})
    assert escaped(workspace) == []
