"""MemoryContract: what every Memory owes to the runs that remember with it. Needs the engine.

A third party subclasses it and supplies an empty memory for each test::

    class TestAcmeMemory(MemoryContract):
        features = MemoryFeatures(keeps=True, searches=True)

        @pytest.fixture
        def memory(self): ...
"""

from __future__ import annotations

from .memory_export import MemoryExport
from .memory_items import MemoryItems
from .memory_recall import MemoryRecall


class MemoryContract(MemoryItems, MemoryRecall, MemoryExport):
    """Items in scopes, found again while they are live, and never by anybody else.

    Fixtures: ``memory``, empty for each test; ``reopen`` for the feature ``durable``. Features:
    `MemoryFeatures`.
    """

    contract = "MemoryContract"
