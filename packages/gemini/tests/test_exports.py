"""The names that this package hands on."""

from __future__ import annotations

import subprocess
import sys

import agentic_kernel_gemini


def test_the_public_names_are_these() -> None:
    assert agentic_kernel_gemini.__all__ == [
        "IMPL",
        "PRICES",
        "RUNTIME_KIND",
        "GeminiPlanner",
        "GeminiRuntime",
    ]


def test_importing_it_and_making_a_runtime_does_not_import_the_sdk() -> None:
    code = (
        "import sys, agentic_kernel_gemini as gemini; gemini.GeminiRuntime('gemini-3.8-flash');"
        "print(sorted({'google.genai', 'httpx2', 'pydantic'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
