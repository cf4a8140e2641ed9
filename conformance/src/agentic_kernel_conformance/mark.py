"""Marks: effects in the world that the kit counts; each one blocks until the kit answers.

A substrate under `SubstrateContract` makes a mark in one of three ways:

* in Python: ``mark(token)``, which blocks, or ``await marked(token)``, which does not;
* as a command: ``python -m agentic_kernel_conformance.mark TOKEN``; its exit code is 0 if the mark
  was made;
* over HTTP: ``POST {address}/mark/{token}`` with an empty body, where the address is the value of
  the environment variable ``CONFORMANCE_MARKS``; the status is 200 if the mark was made. Only the
  worker processes have that variable.

The kit may let a mark wait for as long as it likes. If the connection ends without an answer, the
mark may have been made, as with any effect.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Final
from urllib.parse import quote

ADDRESS: Final = "CONFORMANCE_MARKS"
"""The environment variable with the address of the marks: ``http://127.0.0.1:PORT/SECRET``."""
RUN: Final = "CONFORMANCE_RUN"
"""The environment variable by which the kit finds the processes that a substrate started."""


class MarkFailed(RuntimeError):
    """A mark was not made, or it is unknown if it was made."""

    def __init__(self, token: str, why: str) -> None:
        super().__init__(f"the mark {ascii(token)} failed: {why}")
        self.token = token


def mark(token: str) -> None:
    """Make a mark; return once the kit has answered. Blocks the thread.

    Raises:
        MarkFailed: The kit refused the mark, or did not answer.
    """
    host, port, secret = _address(token)
    try:
        answer = _ask(host, port, _request(f"/{secret}/mark/{quote(token, safe='')}"))
    except OSError as error:
        raise MarkFailed(token, f"no answer from {host}:{port} ({error})") from error
    _judge(token, answer)


async def marked(token: str) -> None:
    """`mark`, without blocking the event loop; a cancellation closes the connection.

    Raises:
        MarkFailed: The kit refused the mark, or did not answer.
    """
    import asyncio  # The command does not need it, and it is slow to import.

    host, port, secret = _address(token)
    try:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(_request(f"/{secret}/mark/{quote(token, safe='')}"))
            answer = await reader.readline()
        finally:
            writer.close()
    except OSError as error:
        raise MarkFailed(token, f"no answer from {host}:{port} ({error})") from error
    _judge(token, answer)


def post(name: str, body: bytes) -> None:
    """Send the kit a text about this process; for the kit's own use."""
    host, port, secret = _address(name)
    _ask(host, port, _request(f"/{secret}/{name}", body))


def _address(token: str) -> tuple[str, int, str]:
    address = os.environ.get(ADDRESS, "")
    scheme, _, rest = address.partition("://")
    place, _, secret = rest.partition("/")
    host, _, port = place.rpartition(":")
    if scheme != "http" or not host or not port.isdecimal():
        raise MarkFailed(
            token,
            f"the environment variable {ADDRESS} is {ascii(address)}; it must be the address that "
            "the kit gives to its worker processes, so pass the environment on to every child",
        )
    return host, int(port), secret


def _request(path: str, body: bytes = b"") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: kit\r\nContent-Length: {len(body)}\r\n"
    return head.encode("ascii") + b"Connection: close\r\n\r\n" + body


def _ask(host: str, port: int, request: bytes) -> bytes:
    """Send a request, and return at least the first line of the answer."""
    with socket.create_connection((host, port)) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n" not in answer and (piece := connection.recv(1024)):
            answer += piece
    return answer


def _judge(token: str, answer: bytes) -> None:
    status = answer.split(b"\r\n")[0].decode("ascii", "replace").split(" ")[1:2]
    if not status:
        raise MarkFailed(token, "the connection ended without an answer")
    if status != ["200"]:
        raise MarkFailed(token, f"the kit answered {status[0]}")


def main(arguments: list[str]) -> int:
    """Make the one mark that the command line names; return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write(f"usage: python -m {__package__}.mark TOKEN\n")
        return 2
    try:
        mark(arguments[0])
    except MarkFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
