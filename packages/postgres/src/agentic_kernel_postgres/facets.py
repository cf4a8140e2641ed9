"""Facets: digests of the names and values by which a search finds a Task.

A facet is a digest of 64 bits of a name and a value, such as ``agent`` and an Agent's name. So a
value of any length and with any characters fits an index. The store compares the value itself
afterwards.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from agentic_kernel_engine.record import Record
from agentic_kernel_engine.search import labels_of

AGENT: Final = "agent"
KIND: Final = "kind"
REALM: Final = "realm"


def facet(name: str, value: str) -> int:
    """The digest of a name and a value, as a signed integer of 64 bits."""
    text = f"{name}\0{value}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), signed=True)


def facets_of(record: Record) -> list[int]:
    """All facets of a Task; none ever changes."""
    return [*listed_of(record), *([] if record.realm else [facet(REALM, "")])]


def listed_of(record: Record) -> list[int]:
    """The facets that have an index of their Tasks: all except the facet of the empty realm."""
    task = record.task
    pairs = [(KIND, task.runtime_kind), *labels_of(task).items()]
    if task.agent_name is not None:
        pairs.append((AGENT, task.agent_name))
    if record.realm:
        pairs.append((REALM, record.realm))
    return [facet(name, value) for name, value in pairs]
