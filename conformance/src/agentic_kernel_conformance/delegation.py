"""DelegationContract: what every Delegation owes to parents and to their children.

Needs the engine. A third party supplies what makes one, and where the children run::

    class TestAcmeDelegation(DelegationContract):
        features = DelegationFeatures(pauses=True, asks=True)

        @pytest_asyncio.fixture
        async def home(self, substrate):
            async with Host(substrate, runtime_kinds=["acme"]) as host:
                yield host

        @pytest.fixture
        def make(self, home):
            return lambda: AcmeDelegation(home)
"""

from __future__ import annotations

from .delegation_admits import DelegationAdmits
from .delegation_joins import DelegationJoins
from .delegation_spawns import DelegationSpawns
from .delegation_tells import DelegationTells


class DelegationContract(DelegationAdmits, DelegationSpawns, DelegationJoins, DelegationTells):
    """Work goes to children that are started once, waited for, told, and ended with their parent.

    Parents run on a Host of the kit's, ``host``. Fixtures: ``make``, which makes a `Delegation` as
    each process would; ``home``, the Runtime and Query where the children run, if it is not
    ``host``. It may have the kit's ``substrate``; one that has not supplies an ``errand``, the
    instructions of a child that runs until it is stopped. ``agents`` are two of which the first
    may give work to the second, ``forbidden``, for the feature ``forbids``, two of which it may
    not. Features: `DelegationFeatures`.
    """

    contract = "DelegationContract"
