"""The sources of an adapter: which files they are, and one digest of each package.

The digest of a package is the SHA-256 of lines ``<sha256 of the file>  <path in the package>``,
sorted by path. It covers all files in the package's directory except ``__pycache__``. For a module
that is a single file, it covers that file. Dependencies of the package are not covered.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata, util
from pathlib import Path
from types import ModuleType
from typing import Any

from .contract import Contract

_NEVER = frozenset(
    {"agentic_kernel", "agentic_kernel_conformance", "pytest", "_pytest", "pytest_asyncio"}
)
_LAST = "agentic_kernel_engine"


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
    known = metadata.packages_distributions().get(package, [""])[0]
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
    """Return the sources of an adapter: the module of the class, and its packages.

    Raises:
        SourceMissing: `Contract.sources` names a package that cannot be found.
    """
    module = sys.modules[cls.__module__]
    own = module.__name__.partition(".")[0]
    names = _imported(module)
    packages = cls.sources or sorted({name.partition(".")[0] for name in names} - {own})
    beside = {module.__name__, *(name for name in names if name.partition(".")[0] == own)}
    files = {name: getattr(sys.modules[name], "__file__", None) for name in sorted(beside)}
    return [
        *(source(package, root) for package in packages),
        *(source(name, root, Path(file)) for name, file in files.items() if file),
    ]


def _imported(module: ModuleType) -> set[str]:
    """Return the modules that a module imports from and that may be the implementation."""
    found = {_home(value) for value in vars(module).values()}
    found = {name for name in found if name in sys.modules and _may_implement(name)}
    return {name for name in found if name.partition(".")[0] != _LAST} or found


def _may_implement(name: str) -> bool:
    package = name.partition(".")[0]
    if package in _NEVER or package in sys.stdlib_module_names:
        return False
    return getattr(sys.modules.get(package), "__file__", None) is not None or "." in name


def _home(value: Any) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def _files(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    ]


def _below(path: Path, root: Path) -> bool:
    return path.is_relative_to(root.resolve()) and "site-packages" not in path.parts
