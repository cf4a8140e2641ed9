"""Runtimes under comparison: a module each, with a class `Runtime` that is a `Subject`.

It is made with an `ExitStack` that keeps what it needs for all scenarios: a peer, a loaded model.
"""
