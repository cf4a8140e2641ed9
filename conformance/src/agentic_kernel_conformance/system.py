"""SystemSuite: the fixtures that `RuntimeContract` and `QueryContract` share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from agentic_kernel import Query, Runtime, Task, TaskNotFound

from .contract import Contract, supplied
from .features import RuntimeFeatures
from .reading import NOT_STARTED
from .rules import broken, expect
from .work import OutputWork, RefusingWork, System, Work
from .workbench import Workbench

Hold = Callable[[], AbstractAsyncContextManager[None]]
"""Returns a context manager: while it is open, mutators that were called do not commit; when it
closes, they commit."""


class SystemSuite(Contract):
    """A Runtime that is also a Query, with a `Work` that makes Tasks for it.

    Tests may share the system, and it may hold other Tasks too. A test ends the Tasks that it
    dispatched.
    """

    features: ClassVar[RuntimeFeatures] = RuntimeFeatures()
    fixtures = frozenset({"runtime", "work", "hold", "elsewhere"})

    runtime: Any = supplied("runtime")
    """The system under test, a `System`. Supplied by the adapter."""
    work: Any = supplied("work")
    """A `Work`: makes Tasks whose course a test can rely on. Supplied by the adapter."""
    hold: Any = supplied("hold", "holdable")
    """A `Hold`. Supplied by the adapter for the feature ``holdable``."""
    elsewhere: Any = supplied("elsewhere", "streams")
    """A Host on the store of ``runtime`` that runs no Task. Supplied for ``streams``."""

    @pytest_asyncio.fixture
    async def bench(self, runtime: System, work: Work) -> AsyncIterator[Workbench]:
        """The `Workbench` of one test."""
        bench = Workbench(runtime, work, self.patience)
        yield bench
        await bench.close()

    @pytest.mark.rule("kit")
    async def test_the_fixtures_are_what_they_should_be(self, runtime: System, work: Work) -> None:
        """`runtime` is a Runtime and a Query, `work` makes fresh Tasks that are not stored yet."""
        for port in (Runtime, Query):
            if not isinstance(runtime, port):
                raise broken("kit", f"`runtime` is a {type(runtime).__name__}, no {port.__name__}")
        if not isinstance(work, Work):
            raise broken("kit", f"`work` is a {type(work).__name__}, no Work")
        if self.features.refuses and not isinstance(work, RefusingWork):
            raise broken("kit", "refuses is open, but `work` is no RefusingWork")
        for feature in ("keeps_partial_output", "streams"):
            if self.features.is_open(feature) and not isinstance(work, OutputWork):
                raise broken("kit", f"{feature} is declared open, but `work` is no OutputWork")
        made: list[Task] = []
        for make in (work.succeed, work.fail, work.run_until_stopped, work.pass_safe_points):
            made += [make(), make()]
        for task in made:
            expect(task.status is NOT_STARTED, "kit", f"`work` made a Task that is {task.status}")
            try:
                await runtime.get(task.id)
            except TaskNotFound:
                continue
            raise broken("kit", f"`work` made a Task that is already stored: {ascii(task.id)}")
        ids = {task.id for task in made}
        expect(len(ids) == len(made), "kit", "`work` made two Tasks with the same id")
