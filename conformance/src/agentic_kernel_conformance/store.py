"""StoreContract: the contract of every Store, on any storage. Needs the engine.

A third party subclasses it and supplies an empty store for each test::

    class TestAcmeStore(StoreContract):
        features = StoreFeatures(durable=True, processes=True)

        @pytest_asyncio.fixture
        async def store(self, tmp_path): ...

        @pytest.fixture
        def reopen(self, tmp_path): ...      # for durable: async def reopen(store) -> Store

        @pytest.fixture
        def factory(self, tmp_path):         # for processes: how another process opens it
            return StoreFactory("acme.store:AcmeStore", (str(tmp_path),))
"""

from __future__ import annotations

from .store_claims import StoreClaims
from .store_costs import StoreCosts
from .store_cuts import StoreCuts
from .store_damage import StoreDamage
from .store_deaths import StoreDeaths
from .store_disks import StoreDisks
from .store_events import StoreEvents
from .store_histories import StoreHistories
from .store_pages import StorePages
from .store_processes import StoreProcesses
from .store_reads import StoreReads
from .store_schemas import StoreSchemas
from .store_searches import StoreSearches
from .store_sequences import StoreSequences
from .store_values import StoreValues
from .store_writes import StoreWrites


class StoreContract(
    StoreWrites,
    StoreEvents,
    StorePages,
    StoreSearches,
    StoreClaims,
    StoreDamage,
    StoreCuts,
    StoreCosts,
    StoreDisks,
    StoreSchemas,
    StoreReads,
    StoreValues,
    StoreDeaths,
    StoreProcesses,
    StoreHistories,
    StoreSequences,
):
    """Tests of conditional writes, whole reads, and the liveness of hosts.

    Fixtures: ``store``, empty for each test; ``reopen``, ``factory``, ``expire``, ``hold``,
    ``damage``, ``cut``, ``written``, ``looked``, ``operations``, ``disk``, ``older`` and ``newer``
    for the features that need them.
    Features: `StoreFeatures`.
    """

    contract = "StoreContract"
