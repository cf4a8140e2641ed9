"""Random sequences of verbs find what a runtime makes of them that `apply` does not."""

from __future__ import annotations

import pytest

from agentic_kernel_conformance.rules import RuleError
from agentic_kernel_conformance.runtime_sequences import SingleCaller
from agentic_kernel_conformance.stateful import hold_against_apply
from agentic_kernel_conformance.workbench import Workbench

from . import faulty_runtimes
from .dict_runtime import DictRuntime
from .dict_work import DictWork

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("EmptyExtraDropped", marks=pytest.mark.torture),  # as long as all others
        "FalsyResultReplaced",
        "CompletesWhatIsPaused",
    ],
)
async def test_a_runtime_that_departs_from_the_table_is_caught(name: str) -> None:
    work = DictWork()
    runtime: DictRuntime = getattr(faulty_runtimes, name)(work.perform)
    bench = Workbench(runtime, work, 20.0)
    with pytest.raises(RuleError) as caught:
        await hold_against_apply(SingleCaller(bench), 60, 0, 20.0)
    await runtime.close()
    assert caught.value.rule.name == "table"
    assert "state.mutate(" in "\n".join(caught.value.__notes__)
