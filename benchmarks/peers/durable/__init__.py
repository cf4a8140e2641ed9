"""Beside other libraries that keep their runs in Postgres: durable steps, and what they leave.

Each contestant runs in an environment and in processes of its own, on one server.
"""

from peers.durable.rounds import Line, measure
from peers.durable.table import table, times

__all__ = ["Line", "measure", "table", "times"]
