"""Equivalence: the same scenarios on every runtime, compared by what anybody can observe."""
