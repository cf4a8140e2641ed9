"""Observing: logs, metrics and traces of a server.

It hands no names on: `metrics` loads prometheus_client, which looks at its environment when it is
loaded, and a server with several processes sets that first.
"""
