"""Beside other libraries: one tool turn, and very many runs side by side.

Each contestant runs in an environment and in processes of its own, so no library meets another's
dependencies. Making the environments needs a package index; `nox -s benchmarks -- peers` does it.
"""

from peers.rounds import measure
from peers.table import table

__all__ = ["measure", "table"]
