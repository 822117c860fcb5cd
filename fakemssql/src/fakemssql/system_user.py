"""System user that PostgreSQL runs as.

It is the user of this process, unless that is root: PostgreSQL refuses to run as root. Then it is ``pgserver``, which
must be able to enter the folders above its data and its programs. Only the owner of a folder decides whether other
users may enter it: this module never changes the mode of a folder that fakemssql did not make.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "pgserver"
USERS = "/etc"
"""Folder with the list of users, locked while a user is made."""
_LOCK_SECONDS = 15.0
_ENTER_EACH = 'for folder; do cd "$folder" 2>/dev/null || { printf %s "$folder"; exit 1; }; done'


class SystemUserError(Exception):
    """The user cannot be made, or cannot enter a folder; the text says why, and what to do."""


@dataclass(frozen=True)
class SystemUser:
    """System user other than the one of this process."""

    name: str
    uid: int
    gid: int

    def can_enter(self, path: Path) -> bool:
        """Return whether the user can enter the folder ``path`` and all folders above it."""
        return self._closed(path) is None

    def require_entry(self, path: Path, advice: str) -> None:
        """Raise :class:`SystemUserError` if the user cannot enter the folder ``path`` or one above it."""
        closed = self._closed(path)
        if closed is not None:
            raise SystemUserError(
                f"PostgreSQL runs as the user {self.name} if root starts fakemssql, and that user cannot "
                f"enter the folder {closed}: {advice}, let other users enter this one (chmod o+x), or start fakemssql "
                "as another user than root."
            )

    def _closed(self, path: Path) -> str | None:
        """Topmost folder that the user cannot enter; None if the user can enter all."""
        folders = [str(folder) for folder in (*reversed(path.parents), path)]
        # Try it instead of reading the modes: access lists and file systems have further rules.
        tried = subprocess.run(
            ["/bin/sh", "-c", _ENTER_EACH, "sh", *folders],
            stdout=subprocess.PIPE,
            cwd="/",
            check=False,
            **as_user(self),
        )
        return os.fsdecode(tried.stdout) if tried.returncode else None


def needed() -> SystemUser | None:
    """Return the other user if this process runs as root, else None. Makes the user if it is missing.

    Raises :class:`SystemUserError`.
    """
    if os.geteuid() != 0:
        return None
    entry = _entry() or _make()
    return SystemUser(NAME, entry.pw_uid, entry.pw_gid)


def _entry() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def _make() -> pwd.struct_passwd:
    try:
        # useradd looks for the name before it locks the list. If two run at once, both make the user, and the number
        # of the second replaces that of the first.
        with _locked(USERS):
            entry = _entry()
            if entry is None:
                subprocess.run(["useradd", "--shell", "/bin/sh", NAME], check=True, capture_output=True)
                entry = pwd.getpwnam(NAME)
            return entry
    except (OSError, subprocess.CalledProcessError, KeyError) as error:
        raise SystemUserError(
            f"PostgreSQL does not run as root, and the user {NAME} that it would run as cannot be made: make it, "
            "or start fakemssql as another user than root."
        ) from error


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Lock the folder for the block; an :class:`OSError` if another process keeps its lock, as any process can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                # flock has no timeout: it waits for ever or not at all.
                time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def as_user(user: SystemUser | None) -> dict[str, Any]:
    """Return the arguments of :class:`subprocess.Popen` that start a process as ``user``; none for None."""
    return {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": []}


def make_folder(path: Path) -> None:
    """Make a folder and the missing ones above it; if root makes them, the other user can enter them."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        open_to_entry(folder)


def open_to_entry(folder: Path) -> None:
    """If this process runs as root, let other users enter a folder that it made, but not list its files."""
    if os.geteuid() == 0:
        folder.chmod(folder.stat().st_mode | 0o011)


def link_or_copy(source: str, target: str) -> None:
    """Hard-link a file, or copy it if the file system has no hard links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target)
