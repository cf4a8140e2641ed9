"""Every faulty implementation under its contract; `test_faulty` runs this file and reads on."""

from __future__ import annotations

from .adapters import (
    approvals,
    delegations,
    kernels,
    memories,
    observers,
    planners,
    policies,
    runtimes,
    seams,
    stores,
    streams,
    substrates,
    tools,
)

ADAPTERS = {
    **stores.ADAPTERS,
    **runtimes.ADAPTERS,
    **kernels.ADAPTERS,
    **observers.ADAPTERS,
    **planners.ADAPTERS,
    **policies.ADAPTERS,
    **tools.ADAPTERS,
    **memories.ADAPTERS,
    **approvals.ADAPTERS,
    **delegations.ADAPTERS,
    **streams.ADAPTERS,
    **seams.ADAPTERS,
    **substrates.ADAPTERS,
}
globals().update(ADAPTERS)
