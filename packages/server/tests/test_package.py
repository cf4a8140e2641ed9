"""The package's names."""

from __future__ import annotations

import agentic_kernel_server as server


def test_every_public_name_is_there_and_stands_in_order() -> None:
    key = lambda name: (name.islower(), not name.isupper(), name)  # noqa: E731
    assert sorted(server.__all__, key=key) == server.__all__
    assert all(getattr(server, name) is not None for name in server.__all__)
    assert set(server.__all__) == {
        *("SCOPES", "Authenticate", "Bounds", "Caller", "Decide", "Measure", "Refused"),
        *("Ruling", "Server", "Settings", "Silent", "ToolCall", "Unbounded"),
        *("anonymous", "deny_all"),
    }
