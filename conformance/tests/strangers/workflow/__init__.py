"""A workflow interpreter as a substrate, and ten mistakes in it."""
