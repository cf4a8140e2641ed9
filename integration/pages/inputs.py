"""The table of the inputs that each ready runtime takes, from the declarations in its code."""

from __future__ import annotations

from typing import Final

from agentic_kernel_claude import ClaudeRuntime
from agentic_kernel_copilot import CopilotRuntime
from agentic_kernel_engine import Limits
from agentic_kernel_engine.inputs import CONTINUES, DOCUMENTS, IMAGES, SESSION, Inputs
from agentic_kernel_gemini import GeminiRuntime
from agentic_kernel_local import LocalRuntime
from agentic_kernel_ollama import OllamaRuntime
from agentic_kernel_openai import OpenAIChatPlanner, OpenAIRuntime

RUNTIMES: Final[dict[str, Inputs]] = {
    "OpenAIRuntime": OpenAIRuntime.inputs,
    'OpenAIRuntime with `api="chat"`': OpenAIChatPlanner.inputs,
    "ClaudeRuntime": ClaudeRuntime.inputs,
    "OllamaRuntime": OllamaRuntime.inputs,
    "GeminiRuntime": GeminiRuntime.inputs,
    "LocalRuntime": LocalRuntime.inputs,
    "CopilotRuntime": CopilotRuntime.inputs,
}


def inputs() -> str:
    """One column for each ready runtime, one row for each input."""
    declared = list(RUNTIMES.values())
    rows = {
        "`Task.agent_name`": [_taken(each.agent) for each in declared],
        f"metadata `{SESSION}`": [_taken(each.session) for each in declared],
        f"metadata `{CONTINUES}`": [_taken(each.continues) for each in declared],
        f"metadata `{IMAGES}`": [each.images or "refused" for each in declared],
        f"metadata `{DOCUMENTS}`": [each.documents or "refused" for each in declared],
        "options in the metadata; in a `Repertoire` without the scope": [
            _options(each) for each in declared
        ],
        "other metadata under its own scope, or under `input/`": ["refused"] * len(declared),
        "tools and a policy": [_offered(each.tools) for each in declared],
        "agents as tools, children": [_agents(each) for each in declared],
        "`output_schema`": [_offered(each.schema) for each in declared],
        "limits": [_limits(each) for each in declared],
    }
    names = list(RUNTIMES)
    lines = ["| input | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {row} | " + " | ".join(cells) + " |" for row, cells in rows.items()]
    return "\n".join(lines)


def _taken(taken: bool) -> str:
    return "taken" if taken else "refused"


def _offered(offered: bool) -> str:
    return "taken" if offered else "no such argument"


def _agents(each: Inputs) -> str:
    return "refused" if each.tools and not each.agents else _offered(each.agents)


def _options(each: Inputs) -> str:
    return ", ".join(f"`{each.scope}/{name}`" for name in each.options) or "refused"


def _limits(each: Inputs) -> str:
    every = set(Limits.__struct_fields__)
    if set(each.limits) == every:
        return "all"
    if not each.limits:
        return "no such argument"
    missing = sorted(every - set(each.limits))
    return "all but " + ", ".join(f"`{name}`" for name in missing) + ", which are refused"
