"""Schemathesis against the real server: ``nox -s schemathesis`` runs it in its own environment.

It generates requests from the OpenAPI document, good ones and bad ones, one by one and in
sequences, and holds each answer against the document. Two of its checks are left out. The document
cannot say all that a request must fulfil (`positive_data_acceptance`), and the wire has no answer
405: a method that no call has is not found (`unsupported_method`). Streams do not end, so they are
left out, too.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from agentic_kernel_server.security import KeyFile

from .serving_process import Serving

PROGRAM = os.environ["SCHEMATHESIS"]
SECONDS = os.environ.get("SCHEMATHESIS_SECONDS", "120")
RULES = """version: 1
rules:
  - {name: all, priority: 1, effect: allow, match: {capability: "*"}}
"""
LEFT_OUT = "positive_data_acceptance,unsupported_method"
PHASES = {"examples,coverage,fuzzing": 500, "stateful": 100}
"""The phases that share the time, and the fewest cases of each share. One run of all phases may
spend the whole time before the stateful one."""


@pytest.mark.timeout(int(SECONDS) + 600)
@pytest.mark.parametrize("phases", sorted(PHASES))
def test_every_answer_fits_the_document(phases: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    key, _ = KeyFile(tmp_path / "keys.json").make("root", ["admin"])
    serving = Serving(tmp_path, "--policy", "rules.yaml", "--keys", "keys.json")
    try:
        done = subprocess.run(
            [
                PROGRAM, "run", f"{serving.url}/v0/openapi.json",
                "--header", f"Authorization: Bearer {key}",
                "--exclude-path-regex", ".*/stream$",
                "--exclude-checks", LEFT_OUT,
                "--phases", phases,
                "--max-time", str(max(1, int(SECONDS) // len(PHASES))),
                "--request-timeout", "40",
                "--continue-on-failure", "--no-color",
            ],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        print(done.stdout[-8_000:])
        assert done.returncode == 0, done.stdout[-8_000:]
        summary = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
        assert summary is not None, done.stdout[-8_000:]
        assert int(summary[1]) > PHASES[phases]
        assert "Traceback" not in serving.log.read_text()
        assert serving.stop() == 0
    finally:
        serving.process.kill()
        serving.process.wait()
