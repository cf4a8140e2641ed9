"""The runtime kinds that this command runs; those of others it only controls."""

from __future__ import annotations

from typing import Final

KIND: Final = "local"
"""The runtime kind of a conversation with the model."""
TOOLS_KIND: Final = "local-tools"
"""The runtime kind of Tasks in which the model calls tools."""
KINDS: Final = (KIND, TOOLS_KIND)
"""The runtime kinds that this command runs."""


def serves(kind: str) -> bool:
    """Whether this command runs Tasks of this runtime kind."""
    return kind in KINDS
