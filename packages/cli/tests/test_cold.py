"""The start of a short command: it loads the parts that its verb needs, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from agentic_kernel_cli.commands import VERBS, app

OF_A_RUN = (
    "agentic_kernel_engine.loop", "agentic_kernel_engine.seams", "agentic_kernel_cli.running",
    "agentic_kernel_cli.agents", "agentic_kernel_cli.streaming", "agentic_kernel_file.memory",
    "agentic_kernel_cli.application",
)  # fmt: skip
"""Parts that only a verb that runs Tasks needs."""
HEAVY = (
    "agentic_kernel_guard", "agentic_kernel_server", "openai", "pydantic", "mcp", "opentelemetry",
)  # fmt: skip
"""Packages that no short command loads."""
MOST = 430
"""The most modules of a verb that reads the store. It is a bound on the time to start, which a busy
machine cannot move; when this was written there were 399."""
MOST_OF_THE_DOCTOR = 600
MOST_OF_THE_VERSION = 240
MOST_OF_THE_HELP = 545
OF_A_STORE = ("agentic_kernel_engine", "agentic_kernel_file", "asyncio", "platformdirs")
"""Parts that only a verb with a store needs."""


def loaded(folder: Path, *words: str) -> set[str]:
    """The modules that one command has loaded at its end."""
    script = (
        "import sys\n"
        "from agentic_kernel_cli.app import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        f"    open({str(folder / 'modules')!r}, 'w').write(' '.join(sys.modules))\n"
    )
    env = {
        **os.environ,
        "AGENTIC_KERNEL_STATE": str(folder / "state"),
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    }
    command = [sys.executable, "-c", script, *words]
    subprocess.run(command, check=False, env=env, capture_output=True, timeout=60)
    return set((folder / "modules").read_text().split())


@pytest.mark.parametrize(
    ("words", "most", "spared"),
    [
        ("list", MOST, (*OF_A_RUN, "rich.table", "platformdirs")),
        ("list --status paused --limit 3", MOST, OF_A_RUN),
        ("show somebody", MOST, OF_A_RUN),
        ("doctor --runtime openai", MOST_OF_THE_DOCTOR, OF_A_RUN[2:]),
        ("--version", MOST_OF_THE_VERSION, (*OF_A_RUN, *OF_A_STORE)),
        ("list --help", MOST_OF_THE_HELP, OF_A_RUN),
    ],
)
def test_a_short_command_loads_no_part_that_it_does_not_need(
    tmp_path: Path, words: str, most: int, spared: tuple[str, ...]
) -> None:
    there = loaded(tmp_path, *words.split())
    assert "agentic_kernel_cli.commands" in there
    assert not there & {*spared, *HEAVY}
    others = {name for name in there if name.startswith("agentic_kernel_cli.verbs.")}
    assert len(others) <= 1, "a verb loads no other verb"
    assert len(there) <= most, f"{len(there)} modules"


@pytest.mark.parametrize("verb", list(VERBS))
def test_each_verb_is_a_function_or_group_of_its_module(verb: str) -> None:
    module, _, name = VERBS[verb].partition(":")
    found = getattr(import_module(f"agentic_kernel_cli.{module}"), name)
    assert isinstance(found, typer.Typer) or found.__module__.endswith(f"verbs.{verb}")


def test_a_misspelt_verb_is_told_the_right_one() -> None:
    said = CliRunner().invoke(app, ["shwo"])
    assert said.exit_code == 2
    assert "Did you mean 'show'?" in said.output
