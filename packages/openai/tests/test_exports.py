"""The names that this package hands on, and what importing it costs."""

import subprocess
import sys

import agentic_kernel_openai


def test_the_public_names_are_these() -> None:
    assert agentic_kernel_openai.__all__ == [
        "PRICES",
        "RUNTIME_KIND",
        "OpenAIChatPlanner",
        "OpenAIPlanner",
        "OpenAIRuntime",
        "PlannerOptions",
    ]


def test_the_sdk_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys\n"
        "from agentic_kernel_openai import OpenAIRuntime\n"
        "OpenAIRuntime('gpt-4o', api_key='k')\n"
        "print(*{'openai', 'httpx2', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
