"""Examines an environment in which one wheel was installed alone; run by `nox -s install`.

    python -I installed.py DISTRIBUTION OWN_DISTRIBUTION...
    python -I installed.py --together DISTRIBUTION...

Fails unless what is installed is what is declared, directly or further down, and nothing else; our
own distributions come from our own wheels; every entry point loads; every module imports, or
misses a package of a declared extra and says so; and the types are there. Of distributions that
were installed together only the second half is examined. It uses the standard library only,
because nothing else may be in that environment.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

STRANGER = "agentic-kernel"
"""Somebody else's distribution, one slip of the pen away from ours."""
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")


def normal(name: str) -> str:
    """The name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(root: str, found: dict[str, Distribution]) -> tuple[set[str], set[str]]:
    """What ``root`` pulls in: all it may, by any marker, and what it must, without one."""
    may, must = {root}, {root}
    seen: set[tuple[str, str]] = set()
    queue = [(root, "")]
    while queue:
        name, extra = queue.pop()
        if (name, extra) in seen or name not in found:
            continue
        seen.add((name, extra))
        for text in found[name].requires or ():
            match = _REQUIREMENT.fullmatch(text)
            assert match is not None, f"{name} requires {text!r}, which cannot be read"
            wanted, extras, _, marker = match.groups()
            condition = re.search(r"extra\s*==\s*['\"]([^'\"]+)", marker or "")
            if (normal(condition[1]) if condition else "") != extra:
                continue
            wanted = normal(wanted)
            may.add(wanted)
            if marker is None:
                must.add(wanted)
            queue.append((wanted, ""))
            queue.extend((wanted, normal(part)) for part in (extras or "").split(",") if part)
    return may, must


def optional(distribution: Distribution) -> set[str]:
    """The distributions that only an extra brings, as their names are compared."""
    matches = (_REQUIREMENT.fullmatch(text) for text in distribution.requires or ())
    return {normal(match[1]) for match in matches if match and "extra" in (match[4] or "")}


def imported(root: str, found: dict[str, Distribution]) -> tuple[list[str], list[str]]:
    """The modules that import, and those that wait for a package of an extra."""
    module_name = _module(found[root])
    package = importlib.import_module(module_name)
    assert package.__file__ is not None
    folder = Path(package.__file__).parent
    assert (folder / "py.typed").is_file(), f"{module_name} has no py.typed"
    for entry in found[root].entry_points:
        entry.load()
    modules, waiting = [module_name], []
    extras = optional(found[root])
    for module in pkgutil.walk_packages([str(folder)], f"{module_name}."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if normal((error.name or "").partition(".")[0]) not in extras:
                raise
            waiting.append(f"{module.name}, for {error.name}")
        else:
            modules.append(module.name)
    return modules, waiting


def together(roots: list[str]) -> None:
    """Examine what several distributions hold, whatever else is installed."""
    found = {normal(each.metadata["Name"]): each for each in distributions()}
    for root in roots:
        modules, waiting = imported(root, found)
        print(f"{root}: {len(modules)} modules import, {len(waiting)} wait for an extra")


def main(root: str, own: set[str]) -> None:
    """Examine and print; the first thing that is wrong ends the process with its message."""
    found = {normal(each.metadata["Name"]): each for each in distributions()}
    may, must = declared(root, found)
    installed = set(found) - ({"pip"} - may)
    assert STRANGER not in found, f"{STRANGER} is installed, which is not ours"
    assert installed <= may, f"not declared, yet installed: {sorted(installed - may)}"
    assert must <= installed, f"declared, yet not installed: {sorted(must - installed)}"
    for name in sorted(own & installed):
        origin = json.loads(found[name].read_text("direct_url.json") or "{}").get("url", "an index")
        assert origin.startswith("file:"), f"{name} came from {origin}, not from our wheel"

    modules, waiting = imported(root, found)
    company = sorted(f"{name} {found[name].version}" for name in installed - {root})
    print(f"{root} {found[root].version}: {len(modules)} modules import, typed; with it came")
    print("\n".join(f"    {each}" for each in company) or "    nothing")
    if waiting:
        print("Modules that wait for an extra:")
        print("\n".join(f"    {each}" for each in waiting))


def _module(distribution: Distribution) -> str:
    tops = {
        path.parts[0]
        for path in distribution.files or ()
        if len(path.parts) > 1 and path.parts[0].isidentifier()
    }
    assert len(tops) == 1, f"the wheel installs several packages: {sorted(tops)}"
    return tops.pop()


if __name__ == "__main__":
    if sys.argv[1] == "--together":
        together(sys.argv[2:])
    else:
        main(sys.argv[1], set(sys.argv[2:]))
