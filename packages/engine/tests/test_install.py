"""The installation of our distributions before a release, and after it."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from agentic_kernel_engine.install import command, install


@pytest.mark.parametrize(
    ("requirement", "release", "said"),
    [
        ("a", "0.2.0.dev0", "pip install -f wheelhouse -c wheelhouse/constraints.txt a"),
        ("a[b]", "0.2.0.dev0", "pip install -f wheelhouse -c wheelhouse/constraints.txt 'a[b]'"),
        ("a", "0.2.0", "pip install a"),
        ("a[b]", "0.2.0", "pip install 'a[b]'"),
    ],
)
def test_before_a_release_the_wheels_of_a_checkout_are_named(
    requirement: str, release: str, said: str
) -> None:
    assert command(requirement, release) == said


def test_an_error_names_the_command_of_the_installed_version() -> None:
    here = command("a[b]", version("agentic-kernel-engine"))
    assert install("a[b]").startswith(here)
    assert ("wheelhouse" in here) == ("nox -s wheelhouse" in install("a[b]"))
