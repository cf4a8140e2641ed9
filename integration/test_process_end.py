"""The end of a process whose runtime nothing closes: silence, the right code, and no lost Task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentic_kernel import TaskStatus
from agentic_kernel_copilot import find_cli
from agentic_kernel_engine import Host
from agentic_kernel_file import FileStore

from .peers.aimock import Aimock
from .peers.node import installed

RUNTIMES = {
    "claude": "ClaudeRuntime('scripted', base_url=url, api_key='none', store=store, **told)",
    "copilot": """CopilotRuntime(
        model="scripted", offline=True, home=home, cli_path=cli, store=store, **told,
        provider={"type": "openai", "wire_api": "completions", "base_url": url + "/v1",
                  "api_key": "none"})""",
    "gemini": "GeminiRuntime('scripted', base_url=url + '/v1beta', api_key='none', store=store, "
    "**told)",
    "local": "LocalRuntime(store=store, **told)",
    "ollama": "OllamaRuntime('scripted', host=url, store=store, **told)",
    "openai": "OpenAIRuntime('scripted', base_url=url + '/v1', api_key='none', store=store, "
    "**told)",
}
BEGIN = """
import os, sys, threading
from agentic_kernel_{name} import {kind}
from agentic_kernel_file import FileStore

url, home, cli = sys.argv[1:]

class Flowing:
    heard = False

    def observe(self, task_id, event):
        if task_id == "left" and event.type == "run.delta" and not self.heard:
            self.heard = True
            print("flowing", flush=True)

flowing = Flowing()
told = dict(observer=flowing, interval=0.01)
store = FileStore("state")
runtime = {made}
"""
LEAVE = """
runtime.run_sync(runtime.task("Tell a long story about a lighthouse.", id="left"))
"""
TAKE = """
for _ in range(1000):
    done = runtime.run_sync("Say hi.")
    if flowing.heard:
        break
print(done.task.status)
"""
ENDINGS = {"": 0, "sys.exit(7)": 7, "raise ValueError('over')": 1}
LONGEST = 15.0
"""Seconds that the end of a process may take."""


@pytest.fixture(scope="module")
def peer() -> Iterator[Aimock]:
    story = {
        "match": {}, "response": {"content": "The sea. " * 2000}, "latency": 10, "chunkSize": 9,
    }  # fmt: skip
    short = {"match": {"userMessage": "Say hi."}, "response": {"content": "Hi."}}
    with Aimock([short, story]) as server:
        yield server


def program(name: str, then: str) -> str:
    made = RUNTIMES[name]
    begin = BEGIN.format(name=name, kind=made.partition("(")[0], made=made)
    return begin + textwrap.dedent(then)


def started(name: str, then: str, folder: Path, url: str) -> subprocess.Popen[str]:
    cli = str(find_cli(installed("copilot"))) if name == "copilot" else ""
    return subprocess.Popen(
        [sys.executable, "-c", program(name, then), url, str(folder / "home"), cli],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )  # fmt: skip


def killed_in_a_story(name: str, folder: Path, url: str) -> None:
    """Run a program until the model tells its story, and then kill it."""
    with started(name, LEAVE, folder, url) as child:
        assert child.stdout is not None
        heard = child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        assert heard == "flowing\n", child.communicate()[1]
        child.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "last"),
    [
        pytest.param(
            name, last, id=f"{name}-{ENDINGS[last]}",
            marks=[] if (name, last) in (("local", ""), ("openai", "")) else pytest.mark.torture,
        )
        for name in RUNTIMES
        for last in ENDINGS
    ],
)  # fmt: skip
async def test_the_end_of_a_process_leaves_the_task_that_it_took_over(
    name: str, last: str, tmp_path: Path, peer: Aimock
) -> None:
    (tmp_path / "home").mkdir()
    killed_in_a_story(name, tmp_path, peer.url)
    with started(name, TAKE + last, tmp_path, peer.url) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(2)]
        since = time.monotonic()
        _, errors = child.communicate(timeout=60)
        took = time.monotonic() - since
    assert sorted(lines) == ["flowing\n", "success\n"], errors
    assert child.returncode == ENDINGS[last], errors
    assert errors == "" if ENDINGS[last] != 1 else errors.endswith("ValueError: over\n")
    assert errors.count("Traceback") == (ENDINGS[last] == 1)
    assert took < LONGEST

    async with Host(None, FileStore(tmp_path / "state")) as reader:
        left = await reader.get("left")
        assert left.status is TaskStatus.RUNNING
        free = await reader.store.find(claimable=True)
        assert [record.task.id for record in free] == ["left"]
