"""Streams of server-sent events."""
