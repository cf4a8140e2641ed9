"""The command's own tools: where they write, and what a Task keeps of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentic_kernel import InvalidValue, Task
from agentic_kernel_cli.toolbox import Toolbox, write_new


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def test_a_new_file_is_written_inside_the_workspace(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    assert write_new(workspace, "sub/../sub/a.txt", "é\r\n") == "sub/a.txt"
    assert (workspace / "sub" / "a.txt").read_bytes() == "é\r\n".encode()


@pytest.mark.parametrize("path", ["../out.txt", "sub/../../out.txt", "link/out.txt", "", ".", ".."])
def test_a_path_that_leads_out_writes_nothing(workspace: Path, path: str) -> None:
    (workspace / "link").symlink_to(workspace.parent, target_is_directory=True)
    # Wherever it leads, it is inside this test's own folder.
    assert (workspace / path).resolve().is_relative_to(workspace.parent)
    with pytest.raises(ValueError, match="leads out of the workspace"):
        write_new(workspace, path, "x")
    assert sorted(each.name for each in workspace.parent.iterdir()) == ["workspace"]


def test_an_absolute_path_outside_writes_nothing(workspace: Path) -> None:
    outside = workspace.parent / "out.txt"
    with pytest.raises(ValueError, match="leads out of the workspace"):
        write_new(workspace, str(outside), "x")
    assert not outside.exists()


def test_a_file_that_exists_is_not_replaced(workspace: Path) -> None:
    (workspace / "a.txt").write_text("mine")
    with pytest.raises(FileExistsError):
        write_new(workspace, "a.txt", "theirs")
    assert (workspace / "a.txt").read_text() == "mine"


@pytest.mark.parametrize("path", ["a\0b", "none/a.txt"])
def test_a_path_that_cannot_be_is_an_error(workspace: Path, path: str) -> None:
    with pytest.raises((ValueError, OSError)):
        write_new(workspace, path, "x")
    assert list(workspace.iterdir()) == []


def test_a_task_keeps_which_tools_it_has(workspace: Path) -> None:
    box = Toolbox(("calculator", "write"), workspace, yes=True)
    task = Task.new(summary="", instructions="", runtime_kind="x", metadata=box.metadata())
    again = Toolbox.of(task)
    assert (again.names, again.workspace, again.yes) == (box.names, workspace.resolve(), True)
    assert [tool.name for tool in again.tools()] == ["calculator", "write_file"]
    assert [tool.has_effect for tool in again.tools()] == [False, True]


@pytest.mark.parametrize("names", [(), ("odd",), ("write",), ("calculator", "write")])
def test_what_is_no_tool_or_has_no_folder_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidValue):
        Toolbox(names)


@pytest.mark.parametrize(
    "metadata",
    [{}, {"cli/tools": "write"}, {"cli/tools": [1]}, {"cli/tools": ["write"]},
     {"cli/tools": ["write"], "cli/workspace": "not/there"}],
)  # fmt: skip
def test_a_task_without_its_tools_is_refused(metadata: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        Toolbox.of(Task.new(summary="", instructions="", runtime_kind="x", metadata=metadata))
