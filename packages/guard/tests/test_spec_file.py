"""A file that refines the specs of a server's tools."""

from __future__ import annotations

import pytest

from agentic_kernel_guard import CapabilitySpec, Registry, RuleError, SafetyClass, Sensitivity
from agentic_kernel_guard.spec_file import SpecFile, parse

FILE = """version: 1
trust_annotations: false
capabilities:
  - tool: list
    name: crm/customers
    safety: read
    sensitivity: pii
    allowed_fields: [id, city]
    sensitive_fields: [iban]
    idempotent: true
    tags: [sales]
    description: Lists the customers.
    mode: table
  - {tool: drop, offered: false}
"""


def spec(tool: str) -> CapabilitySpec:
    return CapabilitySpec(f"crm/{tool}", f"{tool} things", tool)


def test_a_file_refines_what_a_server_says() -> None:
    file = parse(FILE)
    refined = file.refined(spec("list"), "list")
    assert refined == CapabilitySpec(
        "crm/customers", "Lists the customers.", "list", safety=SafetyClass.READ, idempotent=True,
        sensitivity=Sensitivity.PII, allowed_fields=frozenset({"id", "city"}),
        sensitive_fields=frozenset({"iban"}), tags=frozenset({"sales"}),
    )  # fmt: skip
    assert file.refined(spec("drop"), "drop") is None
    assert file.refined(spec("other"), "other") == spec("other")
    assert (file.trusted, SpecFile().trusted) == (False, True)
    assert file.refinements["list"].mode == "table"
    file.check(["list", "drop", "more"])
    with pytest.raises(RuleError, match=r"line 14.*no tool 'drop'; it has list"):
        file.check(["list"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("capabilities: []", "version is 1"),
        ("version: 1\nrules: []", "line 2, column 8: the file has no 'rules'"),
        ("version: 1\ncapabilities:\n- {safety: read}", "line 3, column 3: .*names its tool"),
        ("version: 1\ncapabilities:\n- {tool: a, saftey: read}", "line 3, column 21"),
        ("version: 1\ncapabilities:\n- {tool: a}\n- {tool: a}", "line 4, column 3: 'a' is there"),
        ("version: 1\ncapabilities:\n- {tool: a, mode: all}", "use one of summary"),
        ("version: 1\ncapabilities:\n- {tool: a, tags: b}", "list of texts"),
        ("version: 1\ncapabilities:\n- {tool: a, idempotent: 1}", "true or false"),
        ("version: 1\ntrust_annotations: no", "line 2"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(RuleError, match=says):
        parse(text)


@pytest.mark.parametrize("more", ["safety: harmless", "sensitivity: pii", "name: nothing"])
def test_a_value_that_does_not_fit_a_spec_is_refused_with_its_place(more: str) -> None:
    file = parse(f"version: 1\ncapabilities:\n- {{tool: a, {more}}}")
    with pytest.raises(RuleError, match="line 3, column 3: a: "):
        file.refined(spec("a"), "a")


def test_toml_says_the_same() -> None:
    file = parse('version = 1\n[[capabilities]]\ntool = "a"\nsafety = "read"\n', "toml")
    refined = file.refined(spec("a"), "a")
    assert refined is not None
    assert refined.safety is SafetyClass.READ


def test_a_registry_may_name_its_tools_otherwise() -> None:
    registry = Registry([spec("list"), spec("drop")], lambda name: name.partition("/")[2])
    assert registry.of_tool("list").name == "crm/list"
    assert registry.tool_of("crm/drop") == "drop"
    assert Registry([spec("list")]).tool_of("crm/list") == "crm_list"
