"""Mutants: small faults that are planted one at a time, to see which checks notice them."""
