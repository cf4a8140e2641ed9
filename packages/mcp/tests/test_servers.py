"""The file of servers, and what a server may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_mcp import HTTPServer, StdioServer, read_servers


def written(folder: Path, text: str) -> Path:
    file = folder / "servers.json"
    file.write_text(text)
    return file


def test_the_usual_form_is_read(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        json.dumps(
            {
                "mcpServers": {
                    "files": {
                        "command": "npx",
                        "args": ["-y", "x", "${ROOT:-/data}"],
                        "env": {"TOKEN": "${SECRET}"},
                        "autoApprove": ["read"],
                    },
                    "web": {
                        "type": "streamable-http",
                        "url": "https://example.com/mcp",
                        "headers": {"Authorization": "Bearer ${SECRET}"},
                    },
                    "off": {"command": "x", "disabled": True},
                }
            }
        ),
    )
    read = read_servers(file, {"SECRET": "s3"})
    assert read.servers == {
        "files": StdioServer("npx", ("-y", "x", "/data"), {"TOKEN": "s3"}),
        "web": HTTPServer("https://example.com/mcp", {"Authorization": "Bearer s3"}),
    }
    assert read.unused == ("files.autoApprove",)
    assert "s3" not in repr(read)


def one(**server: object) -> str:
    return json.dumps({"mcpServers": {"a": server}})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "mcpServers"),
        ('{"mcpServers": {}}', "names no server"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "there twice"),
        ('{"mcpServers": {"a": NaN}}', "NaN is not JSON"),
        ('{"mcpServers": {"a/b": {"command": "x"}}}', "a/b"),
        ('{"mcpServers": {"a": 1}}', "must be an object"),
        (one(), 'no "command"'),
        (one(command=1), "command: must be a string"),
        (one(command="x\0"), "NUL"),
        (one(command="x", args="y"), "args"),
        (one(command="x", env={"A=B": "1"}), "contains '='"),
        (one(command="x", env={"K": "${NOT_SET}"}), "NOT_SET: is not set"),
        (one(type="sse", url="https://example.com"), "SSE is not supported"),
        (one(url="http://example.com/mcp"), "use https:"),
        (one(url="http://127.0.0.1.example.com/mcp"), "use https:"),
        (one(url="file:///etc/passwd"), "https://"),
        (one(url="https://user:pw@example.com"), "no user"),
        (one(url="https://example.com:99999"), "not an address"),
        (one(url="https://example.com", headers={"X": "a\r\nY: b"}), "cannot be sent"),
        (one(url="https://example.com", headers={"X Y": "a"}), "cannot be sent"),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_why(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_servers(written(tmp_path, text), {})
    assert told in str(refused.value)
    assert "servers.json" in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_file_that_is_not_there_or_too_long(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="cannot be read"):
        read_servers(tmp_path / "none.json")
    with pytest.raises(InvalidValue, match="longer than 1,000,000 bytes"):
        read_servers(written(tmp_path, " " * 1_000_001))


def test_a_header_beyond_latin_text_is_refused() -> None:
    with pytest.raises(InvalidValue, match="cannot be sent"):
        HTTPServer("https://example.com", {"X": "\ud800"})
    with pytest.raises(InvalidValue, match="cannot be sent"):
        HTTPServer("https://example.com", {"X": "a\x7f"})
