"""Versions, pins and metadata of the members, and the changelog of their common version."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.version import Version

from .finding import Finding

OWN: Final = "agentic-kernel"
WANTED: Final = (
    "name", "version", "description", "readme", "license", "license-files", "requires-python",
    "classifiers",
)  # fmt: skip
"""The fields that a page of a package index shows, or an installer needs."""


def projects(root: Path) -> dict[Path, Mapping[str, Any]]:
    """The `project` table of each member, by its folder."""
    folders = [*sorted(path.parent for path in root.glob("packages/*/pyproject.toml"))]
    folders.append(root / "conformance")
    return {
        folder: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in folders
    }


def version(members: Mapping[Path, Mapping[str, Any]]) -> Finding:
    """All members have one version, and it is one that can be released."""
    found = sorted({project["version"] for project in members.values()})
    if len(found) > 1:
        return Finding("version", False, f"the members have {', '.join(found)}; give them one")
    if Version(found[0]).is_devrelease:
        return Finding(
            "version", False,
            f"{found[0]} is a version of development; set the one that is to be released",
        )  # fmt: skip
    return Finding("version", True, f"{len(members)} members have {found[0]}")


def pins(members: Mapping[Path, Mapping[str, Any]]) -> Finding:
    """Siblings ask for one another's minor version, e.g. ``>=0.2,<0.3``."""
    wrong = []
    for project in members.values():
        own = Version(project["version"])
        for required in _required(project):
            if not required.name.startswith(OWN):
                continue
            below = f"{own.major}.{own.minor + 1}"
            allowed = required.specifier
            if (
                not allowed.contains(own, prereleases=True)
                or allowed.contains(below, prereleases=True)
                or allowed.contains(f"{own.major}.{own.minor - 1}", prereleases=True)
            ):
                wrong.append(f"{project['name']} asks for {required}")
    if wrong:
        return Finding("pins", False, f"{'; '.join(wrong)}; ask for one minor version")
    return Finding("pins", True, "each member asks for its siblings' minor version")


def metadata(members: Mapping[Path, Mapping[str, Any]]) -> Finding:
    """Each member has what an index shows, its licence, its types, and a README with an example."""
    wrong = []
    for folder, project in members.items():
        name = project["name"]
        wrong += [f"{name} has no {field}" for field in WANTED if not project.get(field)]
        wrong += [
            f"{name} has no file {file}"
            for file in project.get("license-files", ()) if not (folder / file).is_file()
        ]  # fmt: skip
        if not any(folder.glob("src/*/py.typed")):
            wrong.append(f"{name} has no py.typed")
        readme = (folder / str(project.get("readme", "README.md"))).read_text(encoding="utf-8")
        if re.search(r"^(```|    \S)", readme, re.MULTILINE) is None:
            wrong.append(f"the README of {name} has no example")
        wrong += [
            f"the README of {name} links to {target}, which an index page does not have"
            for target in re.findall(r"\]\((?!https?://|#)([^)\s]+)", readme)
        ]
    if wrong:
        return Finding("metadata", False, "; ".join(wrong))
    return Finding("metadata", True, f"{len(WANTED)} fields, licence, types and README of each")


def changelog(members: Mapping[Path, Mapping[str, Any]], text: str) -> Finding:
    """The changelog has a dated section for the version, e.g. ``## 0.2.0 (2027-01-31)``."""
    wanted = next(iter(members.values()))["version"]
    heading = re.search(rf"^## {re.escape(wanted)} \((\d{{4}}-\d\d-\d\d)\)$", text, re.MULTILINE)
    if heading is None:
        return Finding(
            "changelog", False,
            f"no section `## {wanted} (YYYY-MM-DD)`; rename `Unreleased` when the version is set",
        )  # fmt: skip
    return Finding("changelog", True, f"{wanted} of {heading[1]}")


def _required(project: Mapping[str, Any]) -> Sequence[Requirement]:
    extras = project.get("optional-dependencies", {}).values()
    listed = [*project.get("dependencies", ()), *(each for extra in extras for each in extra)]
    return [Requirement(each) for each in listed]
