"""The sources of an adapter: which files they are, and one digest of each package.

The digest of a package is the SHA-256 of lines ``<sha256 of the file>  <path in the package>``,
sorted by path. It covers all files in the package's directory except ``__pycache__``. For a module
that is a single file, it covers that file. Dependencies of the package are not covered.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import metadata, util
from pathlib import Path
from urllib.parse import unquote, urlparse

from .contract import Contract
from .imported import imports, package_of

_NEVER = frozenset(
    {
        *(
            "__main__",
            "agentic_kernel_conformance",
            "pytest",
            "_pytest",
            "pluggy",
            "xdist",
            "hypothesis",
        ),
        *("pytest_asyncio", "pytest_cov", "pytest_timeout", "pytest_xdist"),
    }
)
"""The kit and the tools of tests; they implement nothing that a contract tests."""
_LAST = ("agentic_kernel_engine", "agentic_kernel")
"""The packages that are the implementation only if there is no other."""


class SourceMissing(LookupError):
    """A package whose digest is wanted cannot be found.

    Attributes:
        package: The import name of the package.
    """

    def __init__(self, package: str, why: str) -> None:
        self.package = package
        super().__init__(f"the sources of {package} cannot be found: {why}")


@dataclass(frozen=True, slots=True)
class Source:
    """One import package of an adapter, as it was when the contract ran."""

    package: str
    distribution: str
    """The name of the distribution that installs the package; empty if none does."""
    version: str
    under: str
    """The path of the package below the root of the run; empty if it lies elsewhere."""
    files: int
    sha256: str


def source(package: str, root: Path, path: Path | None = None) -> Source:
    """Return what is known about a package now.

    Args:
        package: The import name of the package.
        root: The root of the run.
        path: The file or directory of the package; found by its import name if not given.

    Raises:
        SourceMissing: There is no such package, or it has no files.
    """
    place = (path or located(package)).resolve()
    names = [place] if place.is_file() else sorted(_files(place))
    if not names:
        raise SourceMissing(package, f"{place} has no files; install the package again")
    home = place.parent if place.is_file() else place
    lines = [
        f"{sha256(name.read_bytes()).hexdigest()}  {name.relative_to(home).as_posix()}\n"
        for name in names
    ]
    known = _distribution(package, place)
    under = place.relative_to(root.resolve()).as_posix() if _below(place, root) else ""
    total = sha256("".join(lines).encode()).hexdigest()
    return Source(
        package, known, metadata.version(known) if known else "", under, len(names), total
    )


def located(package: str) -> Path:
    """Return the directory of a package, or the file of a module.

    Raises:
        SourceMissing: It cannot be imported, or it has no place in the file system.
    """
    try:
        found = util.find_spec(package)
    except (ImportError, ValueError) as error:
        raise SourceMissing(package, f"{error}; install it in this environment") from error
    if found is None:
        raise SourceMissing(package, "no such module; install it in this environment")
    if found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations)))
    if not found.origin or not Path(found.origin).is_file():
        raise SourceMissing(package, "it has no file")
    return Path(found.origin)


def sources_of(cls: type[Contract], root: Path) -> list[Source]:
    """Return the sources of an adapter: its packages, and the modules of its tests.

    Raises:
        SourceMissing: `Contract.sources` names a package that cannot be found.
    """
    module = sys.modules[cls.__module__]
    if module.__file__ is None:
        return [source(package, root) for package in cls.sources]
    file = Path(module.__file__).resolve()
    base = file.parents[module.__name__.count(".") + (file.stem == "__init__")]
    own, folder = module.__name__.partition(".")[0], file.parent
    beside: dict[Path, str] = {}
    packages, last, neighbours = set(cls.sources), set[str](), False
    left = [(module.__name__, file), *_conftests(folder, root)]
    while left:
        name, file = left.pop()
        if file in beside:
            continue
        beside[file] = name
        for wanted in imports(name, file):
            package = wanted.partition(".")[0]
            if package == own:
                left += _below_base(base, wanted)
            elif package in _LAST:
                last.add(package)
            elif _may_implement(package) and (found := package_of(wanted)):
                place = located(found).resolve()
                if place.is_file() and place.parent == folder:
                    left.append((found, place))
                    neighbours = True
                else:
                    packages.add(found)
    if not packages and not neighbours:
        packages.update([each for each in _LAST if each in last][:1])
    return [
        *(source(package, root) for package in sorted(packages)),
        *(source(name, root, file) for file, name in sorted(beside.items(), key=_by_name)),
    ]


def named_by(cls: type[Contract], modules: Iterable[str], root: Path) -> list[Source]:
    """Return the packages of modules that may be the implementation, outside the tests' own.

    A package without files is left out, because it has no digest.
    """
    own = cls.__module__.partition(".")[0]
    tops = {each: each.partition(".")[0] for each in modules if each}
    packages = {
        package_of(each)
        for each, top in tops.items()
        if top != own and top not in _LAST and _may_implement(top)
    }
    found = []
    for package in sorted(packages - {""}):
        with suppress(SourceMissing):
            found.append(source(package, root))
    return found


def _by_name(item: tuple[Path, str]) -> tuple[str, Path]:
    return item[1], item[0]


def _conftests(folder: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the ``conftest.py`` files that pytest reads for a folder, with their modules' names."""
    loaded = {getattr(each, "__file__", None): name for name, each in list(sys.modules.items())}
    for place in (folder, *folder.parents):
        if (file := place / "conftest.py").is_file():
            yield loaded.get(str(file), "conftest"), file
        if place == root.resolve():
            return


def _below_base(base: Path, name: str) -> Iterator[tuple[str, Path]]:
    """Yield a module of the tests' own package, found without importing it."""
    place = base.joinpath(*name.split("."))
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            yield name, file


def _may_implement(package: str) -> bool:
    return package not in _NEVER and package not in sys.stdlib_module_names


@cache
def _distributions(path: tuple[str, ...]) -> tuple[dict[str, list[str]], dict[Path, str]]:
    """Return the distributions by import package, and the editable ones by their folders.

    Args:
        path: The folders of `sys.path` that have distributions; the key of the cache.
    """
    folders: dict[Path, str] = {}
    for each in metadata.distributions():
        told = json.loads(each.read_text("direct_url.json") or "{}")
        if not told.get("dir_info", {}).get("editable"):
            continue
        named = [file for file in each.files or () if file.suffix == ".pth"]
        added = [place for file in named if (place := Path(str(file.locate()))).is_file()]
        lines = [line for place in added for line in place.read_text("utf-8").splitlines()]
        listed = [Path(line).resolve() for line in lines if Path(line).is_absolute()]
        whole = Path(unquote(urlparse(told["url"]).path)).resolve()
        folders |= dict.fromkeys(listed or [whole], each.metadata["Name"])
    return dict(metadata.packages_distributions()), folders


def _distribution(package: str, place: Path) -> str:
    """Return the name of the distribution that installs a package; "" if none does."""
    installed = (each for each in sys.path if any(Path(each).glob("*-info")))
    names, folders = _distributions(tuple(installed))
    known = list(dict.fromkeys(names.get(package.partition(".")[0], ())))
    if len(known) > 1:  # a namespace that several share
        files = {name: metadata.distribution(name).files or () for name in known}
        known = [name for name in known if any(_has(place, file) for file in files[name])]
    editable = (folders[folder] for folder in place.parents if folder in folders)
    return known[0] if known else next(editable, "")


def _has(place: Path, file: metadata.PackagePath) -> bool:
    return Path(str(file.locate())).resolve().is_relative_to(place)


def _files(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]


def _below(path: Path, root: Path) -> bool:
    return path.is_relative_to(root.resolve()) and "site-packages" not in path.parts
