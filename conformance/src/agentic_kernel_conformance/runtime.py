"""RuntimeContract: the contract of every Runtime, on any substrate. Needs only the kernel.

A third party subclasses it and supplies two fixtures::

    class TestAcmeRuntime(RuntimeContract):
        features = RuntimeFeatures(pauses=True)

        @pytest_asyncio.fixture
        async def runtime(self): ...    # a Runtime that is also a Query, built on Host or not

        @pytest.fixture
        def work(self): ...             # a Work: makes Tasks that succeed, fail, hang, … there
"""

from __future__ import annotations

from .runtime_ends import RuntimeEnds
from .runtime_histories import RuntimeHistories
from .runtime_pauses import RuntimePauses
from .runtime_races import RuntimeRaces
from .runtime_sequences import RuntimeSequences
from .runtime_streams import RuntimeStreams
from .runtime_verbs import RuntimeVerbs


class RuntimeContract(
    RuntimeVerbs,
    RuntimePauses,
    RuntimeEnds,
    RuntimeStreams,
    RuntimeRaces,
    RuntimeHistories,
    RuntimeSequences,
):
    """Tests of the six verbs of a Runtime; each test observes its Tasks through the Query.

    Fixtures: ``runtime`` (a `System`) and ``work`` (a `Work`); ``hold`` for the feature
    ``holdable``, ``elsewhere`` for ``streams``. Features: `RuntimeFeatures`.
    """

    contract = "RuntimeContract"
