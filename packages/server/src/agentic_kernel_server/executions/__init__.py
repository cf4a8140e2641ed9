"""Executions: units of work that an agent does by intents, on Tasks of the engine."""

from .encoding import KIND, TOOL_KIND

__all__ = ["KIND", "TOOL_KIND"]
