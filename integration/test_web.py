"""The FastAPI application of the docs, served as its page says, with clients that come and go."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from .test_documentation import ROOT, vendors

__all__ = ["vendors"]
PATIENCE = 60.0


@pytest.fixture
def web(vendors: dict[str, str], tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of the application in a uvicorn of its own, on a free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        words = ["--factory", "web:application", "--timeout-graceful-shutdown", "5"]
        served = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", *words, "--fd", str(listener.fileno())],
            env={**os.environ, **vendors, "PYTHONPATH": str(ROOT / "docs" / "examples")},
            cwd=tmp_path, pass_fds=[listener.fileno()], stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False) as client:
            yield client
        served.terminate()
        _, told = served.communicate(timeout=PATIENCE)
        assert "Application shutdown complete." in told
        assert "Traceback" not in told
    finally:
        served.kill()
        served.wait()


def read(web: httpx.Client, task_id: str, until: str, after: str | None = None) -> list[str]:
    """Read the stream up to an event of this type, and leave; its lines."""
    lines = []
    heads = {} if after is None else {"last-event-id": after}
    with web.stream("GET", f"/tasks/{task_id}/events", headers=heads) as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        for line in events.iter_lines():
            lines.append(line)
            if line.startswith("id: ") and f"event: {until}" in lines[-4:]:
                return lines
    raise AssertionError(lines)


@pytest.mark.torture
def test_a_client_leaves_comes_back_and_approves(web: httpx.Client) -> None:
    begun = web.post("/tasks", params={"text": "Pay the plumber 80 euros.", "wait": False}).json()
    lines = read(web, begun["id"], "task.paused")
    assert "event: task.dispatched" in lines
    asked = web.post("/tasks", params={"text": "Pay the plumber 80 euros."}).json()
    assert asked["status"] == "paused"
    wrong = web.post(f"/tasks/{begun['id']}/approve", params={"digest": "0" * 64}).json()
    assert wrong["status"] == "paused"
    [request] = wrong["requests"]
    assert request["action"]["arguments"] == {"to": "the plumber", "euros": 80}
    done = web.post(f"/tasks/{begun['id']}/approve", params={"digest": request["digest"]})
    assert done.json()["result"] == "The plumber is paid."
    rest = read(web, begun["id"], "task.completed", lines[-1].removeprefix("id: "))
    assert "event: task.dispatched" not in rest
    texts = [json.loads(line.removeprefix("data: ")) for line in rest if '"text"' in line]
    assert "".join(each["text"] for each in texts) == "The plumber is paid."
    again = web.post(f"/tasks/{begun['id']}/approve", params={"digest": request["digest"]})
    assert again.status_code == 409
    assert web.get("/tasks/nobody/events").status_code == 404
    assert (
        web.get(f"/tasks/{begun['id']}/events", headers={"last-event-id": "x"}).status_code == 422
    )
