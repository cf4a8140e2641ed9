"""The kit about itself: names, rules, documentation, and what its modules need."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

import agentic_kernel_conformance as kit
from agentic_kernel_conformance import RULES
from agentic_kernel_conformance.contract import Contract
from agentic_kernel_conformance.features import Features

CONTRACTS = [
    kit.KernelContract,
    kit.RuntimeContract,
    kit.QueryContract,
    kit.StoreContract,
    kit.SubstrateContract,
    kit.ObserverContract,
    kit.ApprovalsContract,
    kit.DelegationContract,
    kit.MemoryContract,
    kit.PlannerContract,
    kit.PolicyContract,
    kit.ToolContract,
    kit.CompactorContract,
    kit.MemoryGovernorContract,
    kit.CapabilityRegistryContract,
    kit.ToolSchedulerContract,
    kit.MiddlewareContract,
    kit.ValidatorContract,
]
FEATURES = [
    kit.RuntimeFeatures,
    kit.StoreFeatures,
    kit.SubstrateFeatures,
    kit.ObserverFeatures,
    kit.ApprovalsFeatures,
    kit.DelegationFeatures,
    kit.MemoryFeatures,
    kit.PlannerFeatures,
    kit.PolicyFeatures,
    kit.ToolFeatures,
    kit.CompactorFeatures,
    kit.MemoryGovernorFeatures,
    kit.CapabilityRegistryFeatures,
    kit.ToolSchedulerFeatures,
    kit.MiddlewareFeatures,
    kit.ValidatorFeatures,
]
SOURCES = Path(inspect.getfile(kit)).parent


def test_the_public_names() -> None:
    assert sorted(kit.__all__, key=lambda name: (not name.isupper(), name)) == kit.__all__
    assert all(getattr(kit, name) is not None for name in kit.__all__)
    with pytest.raises(AttributeError):
        _ = kit.Nothing


@pytest.mark.parametrize("contract", CONTRACTS)
def test_no_suite_hides_a_test_of_another(contract: type[Contract]) -> None:
    names = Counter(
        name for base in contract.__mro__ for name in vars(base) if name.startswith("test_")
    )
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_test_names_its_rules_and_its_feature(contract: type[Contract]) -> None:
    closable = {field.name for field in fields(contract.features)}
    for name, test in inspect.getmembers(contract, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        marks = test.pytestmark  # type: ignore[attr-defined]
        rules = {rule for mark in marks if mark.name == "rule" for rule in mark.args}
        assert rules, name
        assert rules <= RULES.keys(), name
        assert {m.args[0] for m in marks if m.name == "feature"} <= closable, name
        assert test.__doc__, name


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_test_that_draws_seeds_takes_its_share_of_the_time(
    contract: type[Contract],
) -> None:
    for name, test in inspect.getmembers(contract, inspect.isfunction):
        if name.startswith("test_"):
            marks = {mark.name for mark in test.pytestmark}  # type: ignore[attr-defined]
            draws = "trials" in inspect.signature(test).parameters
            assert draws is ("random" in marks), name


def test_every_rule_is_proven_by_some_contract() -> None:
    proven = {
        rule
        for contract in CONTRACTS
        for _, test in inspect.getmembers(contract, inspect.isfunction)
        for mark in getattr(test, "pytestmark", ())
        if mark.name == "rule"
        for rule in mark.args
    }
    assert proven == RULES.keys()


@pytest.mark.parametrize("features", FEATURES)
def test_every_feature_is_closed_by_default_and_documented(features: type[Features]) -> None:
    assert not any(features().is_open(field.name) for field in fields(features))
    (tree,) = ast.parse(inspect.getsource(features)).body
    assert isinstance(tree, ast.ClassDef)
    texts = [node for node in tree.body if isinstance(node, ast.Expr)]
    assert len(texts) == 1 + len(fields(features))


def test_runtimes_and_queries_need_only_the_kernel() -> None:
    seen: set[str] = set()
    waiting = ["runtime", "query", "kernel"]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in ast.walk(ast.parse((SOURCES / f"{name}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                waiting.append(node.module)
            module = node.module if isinstance(node, ast.ImportFrom) else None
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for found in [*named, module or ""]:
                assert not found.startswith("agentic_kernel_engine"), f"{name} imports {found}"
    assert "store" not in seen
