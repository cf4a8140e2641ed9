"""MemoryContract: the duties of a Memory to the runs that use it. Needs the engine.

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
from .memory_shared import MemoryShared


class MemoryContract(MemoryItems, MemoryRecall, MemoryExport, MemoryShared):
    """A memory keeps items in scopes; a query finds only live items of its own scope.

    Fixtures: ``memory``, empty for each test; ``reopen`` for the feature ``durable``; ``another``
    for ``shared``. Features: `MemoryFeatures`.
    """

    contract = "MemoryContract"
