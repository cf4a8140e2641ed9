"""Limits: the names of the limits that a session of the Copilot CLI keeps.

They have a module of their own, because `entry` must name them without importing the SDK.
"""

from __future__ import annotations

from typing import Final

LIMITS: Final = (
    "max_iterations", "max_tool_calls", "max_failures", "max_seconds", "max_input_tokens",
    "max_output_tokens", "max_total_tokens", "max_cost",
)  # fmt: skip
