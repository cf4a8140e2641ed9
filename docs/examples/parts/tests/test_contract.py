"""The shell passes the contract of a substrate, in processes that are killed."""

import shlex
import sys

import pytest

from agentic_kernel import Task
from agentic_kernel_conformance import (
    Fail,
    Mark,
    Say,
    Script,
    SubstrateContract,
    SubstrateFeatures,
    SubstrateWork,
)


class ShellWork(SubstrateWork):
    """Makes Tasks of the kit's scripts: each step is a command."""

    def task(self, script: Script) -> Task:
        commands = "\n".join(command(step) for step in script)
        return Task.new(summary="a script", instructions=commands, runtime_kind="shell")

    def extra(self, token: str) -> str:
        return command(Mark(token))

    def refused(self) -> Task:
        return Task.new(summary="nothing", instructions=" ", runtime_kind="shell")


def command(step: object) -> str:
    """The shell command for a step."""
    if isinstance(step, Mark):
        return shlex.join((sys.executable, "-m", "agentic_kernel_conformance.mark", step.token))
    if isinstance(step, Say):
        return shlex.join(("echo", step.text))
    return f"exit {step.code}" if isinstance(step, Fail) else "true"


class TestShell(SubstrateContract):
    # Not keeps_output: the output of a command that dies with its process is lost.
    features = SubstrateFeatures(marks=True, pauses=True, hears=True, fails=True, refuses=True)

    @pytest.fixture
    def factory(self) -> str:
        return "acme_parts.shell:Shell"

    @pytest.fixture
    def work(self) -> ShellWork:
        return ShellWork()
