"""One server for the session, and a schema of its own for each test."""

from integration.levels import conformance_level
from integration.postgres_server import schema, server

__all__ = ["conformance_level", "schema", "server"]
