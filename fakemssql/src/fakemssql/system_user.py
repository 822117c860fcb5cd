"""The user that PostgreSQL runs as.

It is our own, unless that is root: PostgreSQL refuses to run as root. Then it is ``pgserver``, who must be able to
enter the folders above its data and its programs. Whether other users may enter a folder is for its owner to decide:
the mode of a folder that we did not make is never changed.
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
"""The folder with the list of users, which is locked while one is made."""
_LOCK_SECONDS = 15.0
_ENTER_EACH = 'for folder; do cd "$folder" 2>/dev/null || { printf %s "$folder"; exit 1; }; done'


class SystemUserError(Exception):
    """The user cannot be made, or cannot enter a folder: a sentence that says why, and what to do."""


@dataclass(frozen=True)
class SystemUser:
    """Another user than our own."""

    name: str
    uid: int
    gid: int

    def can_enter(self, path: Path) -> bool:
        """Whether the user can enter the folder ``path`` and those above it."""
        return self._closed(path) is None

    def require_entry(self, path: Path, advice: str) -> None:
        """Raise :class:`SystemUserError` where the user cannot enter the folder ``path`` or one above it."""
        closed = self._closed(path)
        if closed is not None:
            raise SystemUserError(
                f"PostgreSQL runs as the user {self.name} where fakemssql is started by root, and that user cannot "
                f"enter the folder {closed}: {advice}, let other users enter this one (chmod o+x), or start fakemssql "
                "as another user than root."
            )

    def _closed(self, path: Path) -> str | None:
        """The topmost folder that the user cannot enter."""
        folders = [str(folder) for folder in (*reversed(path.parents), path)]
        # The kernel is asked rather than the mode: there are access lists and file systems that know better.
        tried = subprocess.run(
            ["/bin/sh", "-c", _ENTER_EACH, "sh", *folders],
            stdout=subprocess.PIPE,
            cwd="/",
            check=False,
            **as_user(self),
        )
        return os.fsdecode(tried.stdout) if tried.returncode else None


def needed() -> SystemUser | None:
    """None where PostgreSQL can run as our own user. Makes the other one where it is missing.

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
        # useradd looks for the name before it locks what it writes: of two at a time each makes the user, and the
        # second one's number takes the place of the first's.
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
    """Be the only one with a lock on the folder; an :class:`OSError` where somebody keeps it, as anybody can."""
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
                # A lock of this kind is waited for without end, or not at all.
                time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def as_user(user: SystemUser | None) -> dict[str, Any]:
    """Arguments of :class:`subprocess.Popen` that make a process one of ``user``'s; of ours for None."""
    return {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": []}


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing. What root makes, the other user can enter."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        open_to_entry(folder)


def open_to_entry(folder: Path) -> None:
    """Let other users enter a folder that we made, without showing them what is in it, where we are root."""
    if os.geteuid() == 0:
        folder.chmod(folder.stat().st_mode | 0o011)


def link_or_copy(source: str, target: str) -> None:
    """A file at another place as well: a second name for it where the file system can, else a copy."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target)
