"""A pytest that a test starts keeps its files apart from those of the run, as a pytest plugin.

Every start of pytest closes the folder of all runs of the user, ``/tmp/pytest-of-NAME``, to other
users. As root, the embedded Postgres runs as a user of its own, and passes through that folder
while it starts: if a test started pytest at this moment, the server found its folder closed.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

ROOT: Final = "PYTEST_DEBUG_TEMPROOT"
"""The environment variable that names the folder under which pytest makes the folder of runs."""


@pytest.fixture(scope="session", autouse=True)
def files_of_nested_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give each pytest that a test of this process starts a folder of this process."""
    os.environ[ROOT] = str(tmp_path_factory.mktemp("nested"))
