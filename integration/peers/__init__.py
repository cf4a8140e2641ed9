"""Peers: real servers in processes of their own that the siblings are tested against."""
