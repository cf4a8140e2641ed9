"""Entries are found by metadata alone, and their options are read by type."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.discovery import (
    OBSERVERS,
    PROVIDERS,
    RUNTIMES,
    STORES,
    NoOptions,
    ObserverEntry,
    ProviderEntry,
    RuntimeEntry,
    StoreEntry,
    Unusable,
    find,
    found,
    options_of,
    read_options,
)

Install = Callable[[str, str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package with one entry point into a folder on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(package: str, group: str, name: str, code: str) -> None:
        (tmp_path / f"{package}.py").write_text(code)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {package}:ENTRY\n")

    return installed


MAKE = "from agentic_kernel_engine.discovery import *\nENTRY = "
RUNTIME = f"{MAKE}RuntimeEntry(make=print, options=NoOptions)"


@dataclass(frozen=True)
class Options:
    count: int
    share: float = 0.5
    loud: bool = False
    mode: Literal["fast", "safe"] = "safe"
    note: str | None = None

    def __post_init__(self) -> None:
        if self.count > 9:
            raise ValueError(f"count is {self.count}; give 9 at most")


ENTRY = RuntimeEntry(make=lambda allowed, options: print, options=Options)  # type: ignore[arg-type,return-value]


def test_an_entry_is_found_without_an_import_and_loaded_by_name(install: Install) -> None:
    install("found_one", RUNTIMES, "one", RUNTIME)
    there = found(RUNTIMES)["one"]
    assert (there.distribution, there.version, there.problem) == ("found_one", "1.0", "")
    assert "found_one" not in sys.modules
    assert isinstance(find("one", RUNTIMES, PROVIDERS), RuntimeEntry)
    assert find("one", STORES) is None
    assert find("nothing", RUNTIMES) is None


def test_ours_are_registered_in_the_same_way() -> None:
    assert {"claude", "copilot", "gemini", "local", "ollama", "openai"} <= set(
        found(RUNTIMES, PROVIDERS)
    )
    assert {"file", "postgres", "postgresql"} <= set(found(STORES))
    assert "otel" in found(OBSERVERS)
    for group in (RUNTIMES, PROVIDERS, STORES, OBSERVERS):
        assert [each.problem for each in found(group).values()] == [""] * len(found(group))


def test_a_name_that_two_packages_offer_belongs_to_neither(install: Install) -> None:
    install("first_twin", RUNTIMES, "twin", RUNTIME)
    install("second_twin", PROVIDERS, "twin", RUNTIME)
    for groups in ((RUNTIMES,), (PROVIDERS,)):
        assert found(*groups)["twin"].problem == ""
    with pytest.raises(Unusable, match=r"first_twin 1\.0 and second_twin 1\.0 both offer 'twin'"):
        find("twin", RUNTIMES, PROVIDERS)
    assert "first_twin" not in sys.modules


@pytest.mark.parametrize(
    ("group", "name"),
    [
        (RUNTIMES, "Upper"),
        (RUNTIMES, "with space"),
        (RUNTIMES, "9lives"),
        (RUNTIMES, "a" * 41),
        (RUNTIMES, "a\x1b[2J"),
        (STORES, "x"),
        (STORES, "a_b"),
    ],
)
def test_a_name_is_checked_before_anything_is_loaded(
    install: Install, group: str, name: str
) -> None:
    install("named_badly", group, name, "raise AssertionError")
    with pytest.raises(Unusable, match="a name is") as refused:
        find(name.strip(), group)
    assert "\x1b" not in refused.value.reason


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("raise SystemExit(2)", "SystemExit"),
        ("import nothing_like_this", "No module named 'nothing_like_this'"),
        ("", "has no attribute 'ENTRY'"),
        ("ENTRY = 7", "is of the type int; the group agentic_kernel.runtimes takes RuntimeEntry"),
        (f"{MAKE}StoreEntry(open=print, options=NoOptions)", "takes RuntimeEntry"),
        (f"{MAKE}RuntimeEntry(make=7, options=NoOptions)", "make: must be a function"),
        (f"{MAKE}RuntimeEntry(make=print, options=dict)", "options: must be a dataclass"),
        (f"{MAKE}RuntimeEntry(make=print, options=NoOptions, takes=['all'])", "has 'all'"),
        (f"{MAKE}RuntimeEntry(make=print, options=NoOptions, checks=1)", "checks: must be"),
        (
            "from dataclasses import dataclass\n@dataclass\nclass O:\n    x: list[str]\n"
            f"{MAKE}RuntimeEntry(make=print, options=O)",
            "options.x: is a list",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_says_whose_it_is_and_why(
    install: Install, code: str, told: str
) -> None:
    package = f"unusable_{crc32(code.encode())}"
    install(package, RUNTIMES, "bad", code)
    with pytest.raises(Unusable) as refused:
        find("bad", RUNTIMES)
    assert f"{package} 1.0 offers it as {package}:ENTRY" in str(refused.value)
    assert told in str(refused.value)


def test_one_list_that_cannot_be_read_hides_no_other(install: Install, tmp_path: Path) -> None:
    install("good_one", RUNTIMES, "good", RUNTIME)
    install("bad_list", RUNTIMES, "bad", RUNTIME)
    (tmp_path / "bad_list-1.0.dist-info" / "entry_points.txt").write_text(f"[{RUNTIMES}]\nbad\n")
    every = found(RUNTIMES, PROVIDERS)
    assert isinstance(every["good"].load(), RuntimeEntry)
    assert "openai" in every
    assert "cannot be read" in every["the package bad-list"].problem


def test_options_are_shown_with_their_types_and_defaults() -> None:
    assert [str(each) for each in options_of(ENTRY)] == [
        "count=whole number",
        "share=number (0.5)",
        "loud=true|false (False)",
        "mode=fast|safe (safe)",
        "note=text (None)",
    ]


def test_options_are_read_by_type() -> None:
    given = [("count", "3"), ("share", "1.5"), ("loud", "true"), ("mode", "fast"), ("note", "7")]
    assert read_options(ENTRY, given, "-o") == Options(3, 1.5, True, "fast", "7")
    assert read_options(ENTRY, [("count", "0")], "-o") == Options(0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "count must be given; the options are count="),
        ({"count": "1.5"}, "count must be a whole number, not '1.5'; the options are count="),
        ({"count": ""}, "count must be a whole number, not ''; "),
        ({"count": "10"}, "count is 10; give 9 at most"),
        ({"count": "1", "share": "inf"}, "share is inf; give a finite number"),
        ({"count": "1", "share": "nan"}, "share is nan; give a finite number"),
        ({"count": "1", "loud": "maybe"}, "loud must be one of true|false, not 'maybe'; "),
        ({"count": "1", "mode": "Fast"}, "mode must be one of fast|safe, not 'Fast'; "),
        ({"Count": "1"}, "'Count' is no option; it has count=whole number"),
    ],
)
def test_an_option_of_another_type_is_refused_with_the_options_that_there_are(
    given: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_options(ENTRY, given.items(), "--option")
    assert refused.value.path == "--option"
    assert told in refused.value.reason


def test_an_option_is_given_once_and_only_if_there_is_one() -> None:
    with pytest.raises(InvalidValue, match="count is given twice"):
        read_options(ENTRY, [("count", "1"), ("count", "2")], "-o")
    none = ObserverEntry(make=lambda options: print, options=NoOptions)  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidValue, match="'x' is no option; it has none"):
        read_options(none, [("x", "1")], "-o")


@pytest.mark.parametrize("lease", [-1.0, math.inf, math.nan])
def test_a_lease_is_a_number_of_seconds(lease: float) -> None:
    opened: Any = print
    with pytest.raises(InvalidValue, match="lease"):
        StoreEntry(open=opened, options=NoOptions, lease=lease)


def test_a_provider_is_an_entry_of_its_own_group(install: Install) -> None:
    install(
        "one_provider", PROVIDERS, "acme", f"{MAKE}ProviderEntry(make=print, options=NoOptions)"
    )
    assert isinstance(find("acme", RUNTIMES, PROVIDERS), ProviderEntry)
