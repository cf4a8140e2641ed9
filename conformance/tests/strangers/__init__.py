"""Implementations and mistakes whose authors had read the documentation only, not the kit."""
