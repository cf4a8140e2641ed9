"""The programs of README and page run as they stand, against an independent scripted server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.peers.aimock import Aimock

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "packages" / "ollama" / "README.md", ROOT / "docs" / "ollama.md")
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(code, id=f"{page.parent.name}-{number}")
    for page in PAGES
    for number, code in enumerate(BLOCK.findall(page.read_text()))
]
CALL = {"name": "weather", "arguments": {"city": "Graz"}}
ANSWERS: list[dict[str, Any]] = [
    {"match": {"userMessage": "blue"}, "response": {"content": "Scattering."}},
    {"match": {"hasToolResult": True}, "response": {"content": "Take one."}},
    {"match": {"toolName": "weather"}, "response": {"toolCalls": [CALL]}},
]


def test_there_is_code_to_run() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.slow
@pytest.mark.parametrize("code", BLOCKS)
def test_the_code_runs(code: str, aimock: Aimock, tmp_path: Path) -> None:
    aimock.load(ANSWERS)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, env={**os.environ, "OLLAMA_HOST": aimock.url},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] in ("Scattering.", "Take one.")
