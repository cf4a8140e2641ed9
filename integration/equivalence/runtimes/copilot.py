"""Copilot: the real CLI, whose provider is the scripted server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentic_kernel_copilot import CopilotRuntime, find_cli
from agentic_kernel_engine.events import RUN_TURN
from agentic_kernel_engine.plans.vocabulary import PLAN_DECIDED, PLAN_FAILED, RUN_CUT

from ...peers.node import installed
from ..scenarios import SCENARIOS
from ..setting import Setting
from ..trace import KIND, Trace
from ..vendor import KEY, MODEL, Vendor, options


class Runtime(Vendor):
    """See `Subject`."""

    name = "Copilot"
    kind = "copilot"
    closed: Mapping[str, str] = {
        "question": "the CLI has a way of its own to ask, which is not offered",
        "limit of tokens": "the CLI does not say beforehand what a call may use up",
        "structured output": "the CLI takes no schema for its answer",
        "conversation": "a session of the CLI belongs to one Task, so the second is refused",
        "same Agent elsewhere": "it has no registry of capabilities",
    }
    unseen: Mapping[str, str] = {
        scenario.name: "the CLI makes its own requests" for scenario in SCENARIOS
    }
    otherwise: Sequence[str] = (
        "The note `copilot/session` names the CLI's session.",
        "The policy is not asked about an answer, and what it decided about calls is put on record "
        "with what came of them.",
        "A request that failed leaves no event of its own, for the CLI makes it; nor does an "
        "answer that is cut short, which stays in the CLI's session.",
    )

    def __init__(self, keep: ExitStack) -> None:
        super().__init__(keep)
        self._home = Path(keep.enter_context(TemporaryDirectory(prefix="copilot-")))

    def comparable(self, traced: Trace) -> Trace:
        metadata = dict(traced.task["metadata"])
        metadata.pop(f"{KIND}/session", None)
        left_out = (PLAN_DECIDED, PLAN_FAILED, RUN_CUT, RUN_TURN)
        events = [event for event in traced.events if event["type"] not in left_out]
        return Trace({**traced.task, "metadata": metadata}, events, traced.texts)

    def hosts(
        self, urls: Mapping[str, str], setting: Setting, timeout: float
    ) -> Mapping[str, CopilotRuntime]:
        """A Host for each server, not yet entered; one process of the CLI serves them all."""
        made = {name: self.host(url, setting, timeout) for name, url in urls.items()}
        cli = next(iter(made.values())).substrate.cli
        for each in made.values():
            each.substrate.cli = cli
        return made

    def host(self, url: str, setting: Setting, timeout: float) -> CopilotRuntime:
        given = options(setting)
        for name in ("offers", "middleware"):
            given.pop(name, None)  # The CLI has its own way of both.
        provider: Any = {
            "type": "openai",
            "wire_api": "completions",
            "base_url": f"{url}/v1",
            "api_key": KEY,
        }
        return CopilotRuntime(
            model=MODEL,
            provider=provider,
            offline=True,
            timeout=timeout,
            tools=setting.tools,
            system_message="Be brief.",
            cli_path=find_cli(installed("copilot")),
            home=self._home,
            working_directory=self._home,
            env={"HOME": str(self._home), "XDG_CACHE_HOME": str(self._home / ".cache")},
            **given,
        )
