"""The fixtures of each contract are visible in its help, with types, features and texts."""

from __future__ import annotations

import pydoc
from dataclasses import fields

import pytest

import agentic_kernel_conformance as kit
from agentic_kernel_conformance.contract import Contract
from agentic_kernel_conformance.described import described

CONTRACTS = [name for name in kit.__all__ if name.endswith("Contract")]


@pytest.mark.parametrize("name", CONTRACTS)
def test_help_shows_each_fixture_of_a_contract(name: str) -> None:
    contract: type[Contract] = getattr(kit, name)
    text = pydoc.plain(pydoc.render_doc(contract))
    found = described(contract)
    assert {each.name for each in found} == contract.fixtures
    closable = {field.name for field in fields(contract.features)}
    for each in found:
        assert f"{each.name} -> {each.gives} ({each.needed})" in text
        assert each.text
        assert each.gives
        assert each.feature in closable | {""}


def test_a_fixture_says_what_it_gives_and_which_feature_needs_it() -> None:
    found = {each.name: each for each in described(kit.StoreContract)}
    assert found["reopen"].gives == "Callable[[Store], Awaitable[Store]]"
    assert (found["store"].needed, found["reopen"].needed) == ("always", "for durable")


def test_an_adapter_keeps_the_docstring_of_its_own() -> None:
    class TestAcme(kit.StoreContract):
        """Acme."""

    assert TestAcme.__doc__ == "Acme."
