"""Keys: the API keys of a server in one file, which holds only their hashes.

A key is ``ak_<id>_<secret>``. The secret has 256 random bits, too many to guess, so one round of
SHA-256 hides it as well as a slow hash would. The file is replaced as a whole, under a lock, and a
running server reads it again when it has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from agentic_kernel import InvalidValue, KernelError
from agentic_kernel.frozen import shown
from agentic_kernel_engine import Principal

from ..caller import SCOPES

VERSION: Final = 1
"""The form of the key file."""
MAX_BYTES: Final = 16 * 1024 * 1024
"""The largest key file."""
MAX_KEYS: Final = 50_000
"""The most keys of a file, revoked ones included."""
_ID: Final = re.compile(r"[0-9a-f]{12}", re.ASCII)
_log: Final = logging.getLogger(__name__)
_KEY: Final = re.compile(r"ak_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)


class KeyFileError(KernelError, ValueError):
    """A key file cannot be used; the message names the file, the problem and the remedy."""

    def __init__(self, path: str | os.PathLike[str], problem: str) -> None:
        self.path = str(path)
        self.problem = problem
        super().__init__(self.path, problem)

    def __str__(self) -> str:
        return f"the key file {ascii(self.path)} {self.problem}"


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key, as the file keeps it. The secret is not in it."""

    id: str
    hash: str
    """The SHA-256 of the whole key, in hexadecimal digits."""
    principal: str
    tenant: str
    scopes: frozenset[str]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def usable(self, at: datetime) -> bool:
        """True if the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    keys: list[Key]


_decode = msgspec.json.Decoder(_File).decode


class KeyFile:
    """The keys in one file, for the command that makes, lists and revokes them.

    Args:
        path: The file; `make` creates it, with access for its owner only.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = Path(path)

    def read(self) -> tuple[Key, ...]:
        """The keys, in the order in which they were made.

        Raises:
            KeyFileError: There is no such file, or it cannot be used.
        """
        return _read(self.path)[0]

    def make(
        self,
        principal: str,
        scopes: Collection[str],
        *,
        tenant: str = "",
        expires_at: datetime | None = None,
        at: datetime | None = None,
    ) -> tuple[str, Key]:
        """Make a key and store its hash. Nothing but the returned text ever holds the key itself.

        Raises:
            InvalidValue: A scope is unknown, the principal has no name, or the expiry is naive.
            KeyFileError: The file cannot be used.
        """
        if not principal:
            raise InvalidValue("principal", "is empty; name the user or program of the key")
        Principal(principal, tenant)  # Checks both texts.
        wanted = frozenset(scopes)
        if not wanted or wanted - frozenset(SCOPES):
            raise InvalidValue(
                "scopes",
                f"are {shown(', '.join(sorted(wanted)))}; use some of {', '.join(SCOPES)}, and "
                "give each one on its own",
            )
        if expires_at is not None and expires_at.tzinfo is None:
            raise InvalidValue("expires_at", "is a naive datetime; give it a time zone")
        number = secrets.token_hex(6)
        text = f"ak_{number}_{secrets.token_urlsafe(32)}"
        key = Key(
            number, hashed(text), principal, tenant, wanted, at or datetime.now(UTC), expires_at
        )
        with self._locked(create=True) as keys:
            if len(keys) >= MAX_KEYS:
                raise KeyFileError(
                    self.path, f"has {len(keys):,} keys; use another file, or remove revoked ones"
                )
            self._replace([*keys, key])
        return text, key

    def revoke(self, key_id: str, *, at: datetime | None = None) -> Key:
        """Revoke a key. A key that is revoked already stays as it is.

        Raises:
            InvalidValue: There is no key with this id.
            KeyFileError: The file cannot be used.
        """
        with self._locked(create=False) as keys:
            for index, key in enumerate(keys):
                if key.id == key_id:
                    if key.revoked_at is None:
                        key = msgspec.structs.replace(key, revoked_at=at or datetime.now(UTC))
                        self._replace([*keys[:index], key, *keys[index + 1 :]])
                    return key
        raise InvalidValue("ID", f"{shown(key_id)} is no key of {ascii(str(self.path))}; list them")

    @contextmanager
    def _locked(self, *, create: bool) -> Iterator[list[Key]]:
        """Hold the lock of the file's writers, and read the keys."""
        lock = self.path.with_name(f".{self.path.name}.lock")
        try:
            opened = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise KeyFileError(
                self.path, f"cannot be written ({error.strerror}); use a folder that exists"
            ) from error
        try:
            fcntl.flock(opened, fcntl.LOCK_EX)
            missing = create and not self.path.exists()
            yield [] if missing else list(self.read())
        finally:
            os.close(opened)

    def _replace(self, keys: list[Key]) -> None:
        text = msgspec.json.format(msgspec.json.encode(_File(VERSION, keys)), indent=1) + b"\n"
        new = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}")
        try:
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(file, "wb") as opened:
                    opened.write(text)
                    opened.flush()
                    os.fsync(opened.fileno())
                new.replace(self.path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise KeyFileError(self.path, f"cannot be written ({error.strerror})") from error


def hashed(key: str) -> str:
    """The hash that the file keeps of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


Version = tuple[int, int, int]
"""The identity of a file's content: inode, size and time of change."""


def version_of(path: Path) -> Version:
    """The version of a file that is read again when it changes.

    Raises:
        OSError: There is no such file.
    """
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read(path: Path) -> tuple[tuple[Key, ...], Version]:
    try:
        with path.open("rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise KeyFileError(path, "is not a regular file; name a file")
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise KeyFileError(path, "can be written by others; run chmod 600 on it")
            if found.st_size > MAX_BYTES:
                raise KeyFileError(path, f"has {found.st_size:,} bytes; use up to {MAX_BYTES:,}")
            text = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise KeyFileError(
            path, f"cannot be read ({error.strerror}); make a key with agentic-kernel keys make"
        ) from error
    try:
        file = _decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise KeyFileError(path, f"is damaged: {error}; restore it from a copy") from None
    if file.version != VERSION:
        raise KeyFileError(path, f"has version {file.version}, and this release reads {VERSION}")
    if len(file.keys) > MAX_KEYS:
        raise KeyFileError(path, f"has {len(file.keys):,} keys; use up to {MAX_KEYS:,}")
    seen: set[str] = set()
    for key in file.keys:
        problem = _problem(key)
        if problem or key.id in seen:
            raise KeyFileError(path, f"has a key {shown(key.id)} {problem or 'twice'}; remove it")
        seen.add(key.id)
    return tuple(file.keys), (found.st_ino, found.st_size, found.st_mtime_ns)


def _problem(key: Key) -> str:
    try:
        Principal(key.principal, key.tenant)
    except InvalidValue as error:
        return f"whose {error}"
    if not _ID.fullmatch(key.id) or not re.fullmatch(r"[0-9a-f]{64}", key.hash, re.ASCII):
        return "with a malformed id or hash"
    if not key.principal or not key.scopes or key.scopes - frozenset(SCOPES):
        return "without a principal, or with an unknown scope"
    stamps = (key.created_at, key.expires_at, key.revoked_at)
    return "with a naive moment" if any(s is not None and s.tzinfo is None for s in stamps) else ""


class Keys:
    """The keys of a running server: looked up by the text of a credential.

    The file is looked at before each look-up, and read again if it has changed. So a revoked key
    fails at once. If the new file cannot be used, the keys stay as they were, and the log says so
    once.

    Raises:
        KeyFileError: The file cannot be used at the start.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = Path(path)
        self.problem: str = ""
        """The reason why the newest file cannot be used; empty if it is in use."""
        keys, self._version = _read(self.path)
        self._by_id = {key.id: key for key in keys}
        self._refused: Version | None = None

    def find(self, text: str, at: datetime) -> Key | None:
        """The usable key with this text, or None. The time it takes says nothing about a hash."""
        self.refresh()
        parts = _KEY.fullmatch(text)
        key = self._by_id.get(parts[1]) if parts else None
        # A key that is not there costs the same as a wrong one.
        same = hmac.compare_digest(hashed(text) if parts else "", key.hash if key else "0" * 64)
        return key if key is not None and same and key.usable(at) else None

    def current(self, key: Key, at: datetime) -> bool:
        """True if a key that was found before may still be used, as of the last `refresh`."""
        known = self._by_id.get(key.id)
        return known is not None and known.hash == key.hash and known.usable(at)

    def refresh(self) -> bool:
        """Read the file again if it has changed; True if it was read and is in use."""
        try:
            version = version_of(self.path)
        except OSError as error:
            self._complain(f"cannot be read ({error.strerror})")
            return False
        if version == self._version or version == self._refused:
            return False
        try:
            keys, self._version = _read(self.path)
        except KeyFileError as error:
            self._refused = version
            self._complain(error.problem)
            return False
        self._by_id = {key.id: key for key in keys}
        self._refused, self.problem = None, ""
        return True

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            _log.error("the key file %s %s; the earlier keys stay", ascii(str(self.path)), problem)
