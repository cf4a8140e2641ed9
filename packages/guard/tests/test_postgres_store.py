"""PostgresGuardStore: its messages, and a server that stops in the middle."""

from __future__ import annotations

import traceback

import pytest

from agentic_kernel_guard.stores import PostgresGuardStore, StoreFailed


@pytest.mark.parametrize(
    "place",
    [
        "postgresql://u:s3cr3t pw@[::bad/x",
        "postgresql://u:s3cr3tpw@h:port/x",
        "postgresql://u:s3cr3tpw@h/x?zz=s3cr3tpw",
        "postgresql://u:s3cr3t%zzpw@h/x",
        "postgresql://u:s3cr3t%00pw@h/x",
        "POSTGRESQL://u:s3cr3tpw@h/x",
        "host=h password=s3cr3tpw bogus=1",
        "host=h password='s3cr3tpw",
        "postgresql://u:s3cr3t/pw@127.0.0.1:1/x",
        "postgresql://u:s3cr3t@pw/@127.0.0.1:1/x",
        "postgresql://u:1s3cr3t:pw@127.0.0.1:1/x",
        "postgresql://u:s3cr3tpw@127.0.0.1:1/x",
        "postgresql://u:s3cr3tpw@127.0.0.1:1/x?sslmode=s3cr3tpw",
        "postgresql://u:s3cr3tpw@127.0.0.1:1/x?sslmode=verify-full&sslrootcert=/none",
    ],
)
async def test_the_password_of_a_url_is_in_no_message(place: str) -> None:
    store = PostgresGuardStore(place, timeout=2)
    with pytest.raises(StoreFailed) as said:
        await store.last()
    await store.close()
    assert "s3cr3t" not in "".join(traceback.format_exception(said.value)) + repr(said.value)
