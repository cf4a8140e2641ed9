"""Programs: the parser of a program's words, whose help is the docstring of the program."""

from __future__ import annotations

import argparse


def parser(module: str, about: str | None) -> argparse.ArgumentParser:
    """A parser for ``python -m MODULE``. It refuses a word that it does not know, before any work.

    Args:
        module: The name of the program's module.
        about: The docstring of that module.
    """
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
