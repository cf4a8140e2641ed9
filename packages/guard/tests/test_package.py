"""The package's names."""

from __future__ import annotations

import agentic_kernel_guard as guard


def test_every_public_name_is_there_and_stands_in_order() -> None:
    assert sorted(guard.__all__, key=lambda name: (name.islower(), name)) == guard.__all__
    assert all(getattr(guard, name) is not None for name in guard.__all__)
