"""The programs of the other libraries run; only by name, because each library needs an environment
of its own::

    nox -s beside                          make the environments, and run the tests
    python -m integration.beside.others    print each library, and what it requires

``BESIDE_PYTHONS`` is the folder of the environments. Without it everything fails: nothing that was
not run may look as if it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ..programs import parser
from .programs import OTHERS, PROGRAMS, Library, Servers, servers


@pytest.fixture(scope="module")
def peers() -> Iterator[Servers]:
    with servers() as started:
        yield started


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("library", OTHERS, ids=[library.stem for library in OTHERS])
def test_a_program_of_another_library_runs(library: Library, program: str, peers: Servers) -> None:
    if "BESIDE_PYTHONS" not in os.environ:
        pytest.fail("BESIDE_PYTHONS names no folder of environments; run nox -s beside")
    python = Path(os.environ["BESIDE_PYTHONS"], library.stem, "bin", "python")
    peers.check(library, program, peers.run(python, library, program))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print each library, and what it requires."""
    parser("integration.beside.others", __doc__).parse_args(arguments)
    for each in OTHERS:
        print(each.stem, *each.requires)


if __name__ == "__main__":
    main()
