"""Agents of other frameworks as substrates; each runs in an environment of its own."""
