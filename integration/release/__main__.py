"""The release check: ``python -m integration.release BUILT BUILT_AGAIN FROM_SDISTS``.

Each line says what was checked. The exit status is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import files, interface, projects

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Print a line for each check."""
    parser = argparse.ArgumentParser(description="Check what must hold before a release.")
    parser.add_argument("built", type=Path, help="the folder of all wheels and sdists")
    parser.add_argument("again", type=Path, help="a folder of the same, built a second time")
    parser.add_argument("sdists", type=Path, help="a folder of wheels that the sdists made")
    given = parser.parse_args()
    members = projects.projects(ROOT)
    found = [
        projects.version(members),
        projects.changelog(members, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
        projects.pins(members),
        projects.metadata(members),
        interface.interface(ROOT),
        files.equal("built twice", given.built, given.again, "*.whl"),
        files.equal("built twice", given.built, given.again, "*.tar.gz"),
        files.equal("built from its sdist", given.built, given.sdists, "*.whl"),
    ]
    for each in found:
        print(each.line(), flush=True)
    return 0 if all(each.good for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
