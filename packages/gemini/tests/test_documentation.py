"""The page about a provider of one's own is a program that runs, and that passes its contract."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.peers.aimock import Aimock

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[3] / "docs" / "your-provider.md").read_text()
PROGRAM = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
TESTS = re.findall(r'^```python title="(\w+\.py)"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
CALL = {"name": "add", "arguments": {"a": 12, "b": 30}}
USED = {"input_tokens": 100, "output_tokens": 1}
ANSWERS: list[dict[str, Any]] = [
    {"match": {"hasToolResult": True}, "response": {"content": "It is 42.", "usage": USED}},
    {
        "match": {"toolName": "add"},
        "response": {"content": "So:", "toolCalls": [CALL], "usage": USED},
    },
    {"match": {}, "response": {"content": "I cannot tell."}},
]


def run(aimock: Aimock, folder: Path, *arguments: str) -> str:
    aimock.load(ANSWERS)
    (folder / "acme.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder,
        env={**os.environ, "GOOGLE_GEMINI_BASE_URL": aimock.url, "GEMINI_API_KEY": "none",
             "GOOGLE_GENAI_API_VERSION": "v1beta"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_program_of_the_page_prints_what_its_comments_say(
    aimock: Aimock, tmp_path: Path
) -> None:
    quiet = ["-W", "error", "-W", "ignore:FUNCTION_CALL is not a valid FinishReason"]
    printed = run(aimock, tmp_path, *quiet, "acme.py").splitlines()
    promised = re.findall(r"print\(.*\)  # (.+)$", PROGRAM, re.MULTILINE)
    assert len(promised) >= 7
    assert printed == promised


def test_the_planner_of_the_page_passes_the_contract(aimock: Aimock, tmp_path: Path) -> None:
    [(name, code)] = TESTS
    (tmp_path / name).write_text(code)
    said = run(aimock, tmp_path, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", name)
    assert "AcmePlanner (PlannerContract): passed 37 of 43, 6 closed" in said
