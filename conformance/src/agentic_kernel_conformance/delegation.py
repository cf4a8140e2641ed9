"""DelegationContract: the duties of a Delegation to parents and their children.

Needs the engine. A third party supplies a factory, and the Runtime of the children::

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
    """A child is started once, waited for, told decisions, and ended with its parent.

    Parents run on the kit's Host, ``host``. Fixtures: ``make``, which makes a `Delegation` as each
    process would; ``home``, the Runtime and Query of the children, if that is not ``host``. If
    ``home`` does not run the kit's ``substrate``, supply an ``errand``, the instructions of a child
    that runs until it is stopped. ``agents`` are two agents; the first may give work to the second.
    ``forbidden``, for the feature ``forbids``, are two agents; the first may not give work to the
    second. Features: `DelegationFeatures`.
    """

    contract = "DelegationContract"
