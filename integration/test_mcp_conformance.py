"""MCP's own conformance kit looks at `MCPTools`; docs/mcp.md explains each failure.

The kit is the server of each scenario, and starts `mcp_conformance_client`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from .peers.node import installed, node

FAST: Final = "tools_call"
"""The scenario of the gate."""
PASSED: Final[dict[str, str]] = {
    "initialize": "1/1",
    "tools_call": "1/1",
    "sse-retry": "3/3",
    "elicitation-sep1034-client-defaults": "5/6",
    "auth/metadata-default": "14/14",
    "auth/metadata-var1": "14/14",
    "auth/metadata-var2": "14/14",
    "auth/metadata-var3": "14/14",
    "auth/basic-cimd": "14/14",
    "auth/scope-from-www-authenticate": "15/15",
    "auth/scope-from-scopes-supported": "15/15",
    "auth/scope-omitted-when-undefined": "15/15",
    "auth/scope-step-up": "21/21",
    "auth/scope-retry-limit": "16/16",
    "auth/token-endpoint-auth-basic": "19/19",
    "auth/token-endpoint-auth-post": "19/19",
    "auth/token-endpoint-auth-none": "19/19",
    "auth/pre-registration": "14/14",
    "auth/2025-03-26-oauth-metadata-backcompat": "1/4",
    "auth/2025-03-26-oauth-endpoint-fallback": "8/8",
    "auth/resource-mismatch": "2/2",
    "auth/offline-access-scope": "14/14",
    "auth/offline-access-not-supported": "15/15",
    "auth/client-credentials-jwt": "9/9",
    "auth/client-credentials-basic": "9/9",
}
"""What passes of each scenario, of all its checks."""
NOT_RUN: Final = {"auth/cross-app-access-complete-flow"}
ROOT = Path(__file__).parents[1]


def kit() -> list[str]:
    package = installed("mcp-conformance") / "node_modules" / "@modelcontextprotocol"
    return [str(node()), str(package / "conformance" / "dist" / "index.js")]


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, marks=() if each == FAST else (pytest.mark.torture,)) for each in PASSED],
)
def test_a_scenario_passes_as_the_page_says(scenario: str) -> None:
    client = f"{sys.executable} -m integration.mcp_conformance_client"
    done = subprocess.run(
        [*kit(), "client", "--command", client, "--scenario", scenario, "--timeout", "90000"],
        cwd=ROOT, env={**os.environ, "NODE_NO_WARNINGS": "1"}, capture_output=True, text=True,
        timeout=110, check=False,
    )  # fmt: skip
    found = re.search(r"Passed: (\d+/\d+)", done.stdout + done.stderr)
    assert found is not None, done.stdout + done.stderr
    assert found[1] == PASSED[scenario], done.stdout[-4_000:] + done.stderr[-4_000:]


def test_no_scenario_is_left_out_in_silence() -> None:
    listed = subprocess.run(
        [*kit(), "list", "--client"], capture_output=True, text=True, check=True
    )
    _, _, client = listed.stdout.partition("Client scenarios")
    assert set(re.findall(r"^  - (\S+)", client, re.MULTILINE)) == PASSED.keys() | NOT_RUN


def test_the_page_has_the_same_figures() -> None:
    page = (ROOT / "docs" / "mcp.md").read_text()
    for scenario, passed in PASSED.items():
        well, _, of = passed.partition("/")
        if well != of:
            assert f"| `{scenario}` | {well} of {of} |" in page
    all_well, all_of = (
        sum(int(each.split("/")[part]) for each in PASSED.values()) for part in (0, 1)
    )
    assert f"{all_well} of {all_of} checks" in page
