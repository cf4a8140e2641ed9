"""Servers: a module each, with its quirks in `QUIRKS` and its name in `NAME`."""
