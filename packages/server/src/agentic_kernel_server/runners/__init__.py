"""Runners: the programs that execute tools, and what they offer."""
