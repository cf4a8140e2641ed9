"""A sibling takes good names and texts; each refusal names its reason."""

from __future__ import annotations

import pytest

import agentic_kernel_new
from agentic_kernel import InvalidValue
from agentic_kernel_new import KINDS, Kind, Sibling

REFUSED = [
    ("", "beginning with a letter|begins with a letter"),
    ("-acme", "lower-case letters"),
    ("../acme", r"'\.\./acme'"),
    ("/etc/acme", "lower-case letters"),
    ("Acme", "'Acme'"),
    ("a" * 31, "1 to 30"),
    ("acme--x", "single dashes"),
    ("acme-", "single dashes"),
    ("acme.x", "'acme.x'"),
    ("acme\n", r"'acme\\n'"),
    ("acme_x", "single dashes"),
    ("agentic-kernel", "belong to this project"),
    ("agentic-kernel-otel", "belong to this project"),
    ("agentic-kernelx", "belong to this project"),
    ("class", "keyword of Python"),
    ("json", "standard library"),
    ("pytest-asyncio", "its tools import"),
    ("tests", "its tools import"),
    ("аcme", r"\\u0430"),
]


def test_the_names_are_these() -> None:
    assert agentic_kernel_new.__all__ == [
        "ANSWERS",
        "KINDS",
        "FolderTaken",
        "Kind",
        "NewerTemplate",
        "NoAnswers",
        "Recopied",
        "Sibling",
        "create",
        "recopy",
        "template_version",
    ]
    assert KINDS == ("observer", "provider", "runtime", "store")


@pytest.mark.parametrize(("name", "told"), REFUSED, ids=[ascii(each) for each, _ in REFUSED])
def test_a_bad_name_is_refused_with_the_reason(name: str, told: str) -> None:
    with pytest.raises(InvalidValue, match=told) as refused:
        Sibling.of("store", name)
    assert refused.value.path == "name"


@pytest.mark.parametrize(
    ("kind", "entry", "told"),
    [
        ("store", "file", "a package of this project"),
        ("store", "postgresql", "a package of this project"),
        ("store", "x", "2 to 30"),
        ("store", "a_b", "a-z 0-9"),
        ("runtime", "openai", "a package of this project"),
        ("provider", "local-tools", "a package of this project"),
        ("observer", "otel", "a package of this project"),
        ("observer", "a.b", "a-z 0-9"),
        ("runtime", "", "beginning with a letter"),
        ("runtime", "a" * 31, "1 to 30"),
    ],
)
def test_a_bad_entry_is_refused_with_the_reason(kind: Kind, entry: str, told: str) -> None:
    with pytest.raises(InvalidValue, match=told) as refused:
        Sibling.of(kind, "acme-x", entry=entry)
    assert refused.value.path == "entry"


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ('say "so"', "double quotes"),
        ("back\\slash", "backslashes"),
        ("two\nlines", r"'\\n'"),
        ("\x1b[2J", r"'\\x1b'"),
        ("x" * 81, "may have 80"),
        ("漢" * 41, "has 82 columns"),
        ("y" * 10_000_000, "may have 80"),
        ("\ud800", r"'\\ud800'"),
    ],
    ids=range(10),
)
def test_a_bad_summary_is_refused_with_the_reason(summary: str, told: str) -> None:
    with pytest.raises(InvalidValue, match=told):
        Sibling.of("store", "acme-x", summary=summary)


def test_values_of_other_types_are_refused_and_never_shown() -> None:
    nested: list[object] = []
    for _ in range(60):  # As long as 2 ** 60 texts, if it were shown.
        nested = [nested, nested]
    for field in ("kind", "name", "entry", "title", "summary", "author"):
        good = {
            "kind": "store", "name": "a-b", "entry": "ab", "title": "A", "summary": "s",
            "author": "",
        }  # fmt: skip
        with pytest.raises(InvalidValue, match="of the type list"):
            Sibling(**{**good, field: nested})  # type: ignore[arg-type]


def test_what_is_not_given_has_a_default() -> None:
    made = Sibling.of("store", "acme-sql-store", author=" Ann ")
    assert (made.module, made.entry, made.title) == ("acme_sql_store", "acme-sql-store", "AcmeSql")
    assert (made.author, made.variable, made.contract) == (
        "Ann", "ACME_SQL_STORE", "StoreContract",
    )  # fmt: skip
    assert Sibling.of("runtime", "store").title == "Store"
