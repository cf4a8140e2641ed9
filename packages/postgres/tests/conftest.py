"""One server for the session, and a schema of its own for each test."""

from integration.postgres_server import conformance_level, schema, server

__all__ = ["conformance_level", "schema", "server"]
