"""The command's own tools: where they write, and what a Task keeps of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentic_kernel import InvalidValue, Task
from agentic_kernel_cli.grants import Wish
from agentic_kernel_cli.toolbox import Toolbox
from agentic_kernel_cli.workspace import write_new
from agentic_kernel_engine import Host, Loop
from agentic_kernel_engine.loop import Context, FinalAnswer, ToolCall, Turn
from agentic_kernel_engine.seams import ScriptedPlanner


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


def test_a_task_says_which_tools_it_asks_for(workspace: Path) -> None:
    box = Toolbox(("calculator", "write"), workspace, yes=True)
    task = Task.new(summary="", instructions="", runtime_kind="openai", metadata=box.metadata())
    wish = Wish.of(task)
    assert (wish.tools, wish.workspace, wish.yes) == (box.names, str(workspace.resolve()), True)
    assert [tool.name for tool in box.tools()] == ["calculator", "write_file"]
    assert [tool.has_effect for tool in box.tools()] == [False, True]


@pytest.mark.parametrize("names", [(), ("odd",), ("write",), ("calculator", "write")])
def test_what_is_no_tool_or_has_no_folder_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidValue):
        Toolbox(names)


def test_a_workspace_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "none", "a\0b"):
        with pytest.raises(InvalidValue, match="must be a folder"):
            Toolbox(("write",), tmp_path / name)


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("write", {"path": "../out.txt", "content": "x"}, "leads out of the workspace"),
        ("write", {"path": "a.txt", "content": "x"}, "exists already, and no file is replaced"),
        ("write", {"path": "none/a.txt", "content": "x"}, "No such file or directory"),
        ("write", {"path": "a\u202eb", "content": "x"}, "cannot be seen"),
        ("calculator", {"expression": "1 / 0"}, "has no value"),
        ("calculator", {"expression": "one"}, "is not a number or an operator"),
    ],
)
async def test_what_a_tool_refuses_is_told_to_the_planner_and_is_no_bug(
    workspace: Path,
    caplog: pytest.LogCaptureFixture,
    tool: str,
    arguments: dict[str, str],
    told: str,
) -> None:
    (workspace / "a.txt").write_text("mine")
    box = Toolbox((tool,), workspace, yes=True)
    [only] = box.tools()

    def see(context: Context) -> FinalAnswer:
        turn = context.transcript[-1]
        assert isinstance(turn, Turn)
        [seen] = turn.observations
        return FinalAnswer([seen.error, seen.message])

    planner = ScriptedPlanner(ToolCall(only.name, arguments), see)
    async with Host(Loop(planner, [only])) as host:
        done = await host.run(Task.new(summary="", instructions="", runtime_kind="scripted"))
    assert done.failure is None, done.failure
    assert done.result[0] == "handler_error"
    assert told in done.result[1]
    assert str(workspace) not in done.result[1]
    assert caplog.records == []
