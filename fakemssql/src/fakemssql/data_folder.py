"""Data folder of a server: locked by one server at a time; the generated password is kept in it.

A folder that the user names is kept. A temporary one is removed by the process that made it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fakemssql.system_user import make_folder, open_to_entry

LOCK = "server.lock"
PARENT_VARIABLE = "FAKEMSSQL_TMPDIR"
PASSWORD = "password"  # noqa: S105 - the name of a file


class DataFolderError(Exception):
    """The folder cannot be used; the text says why, and what to do."""


def temporary() -> Path:
    """Make a folder below the one that :data:`PARENT_VARIABLE` names, else among the system's temporary files.

    Raises :class:`DataFolderError`.
    """
    parent = os.environ.get(PARENT_VARIABLE) or None
    try:
        path = Path(tempfile.mkdtemp(prefix="fakemssql-", dir=parent)).resolve()
    except OSError as error:
        where = f"in {PARENT_VARIABLE}={parent}" if parent else "for temporary files"
        raise DataFolderError(
            f"No folder for the data can be made {where}: {error.strerror}; name one that can be written as "
            f"{PARENT_VARIABLE}."
        ) from error
    open_to_entry(path)
    return path


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Make the folder if it is missing, and lock it for the block. Raises :class:`DataFolderError`."""
    try:
        make_folder(path)
        lock = open(path / LOCK, "a+")  # noqa: SIM115 - closed below
    except OSError as error:
        raise DataFolderError(
            f"The data folder {path} cannot be used: {error.strerror}; choose a folder that can be written as --data."
        ) from error
    with lock:
        try:
            # This lock ends with this process: the processes that it forks for connections do not inherit it.
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataFolderError(
                f"Another server uses the data folder {path}: stop it first, or choose another --data."
            ) from error
        yield path


def strong_password() -> str:
    """Random password that also satisfies SQL Server's complexity rules."""
    return f"Aa1-{secrets.token_urlsafe(18)}"


def kept_password(path: Path, new: str) -> str:
    """Return the password in the folder, in a file that only its owner can read; if the file is missing, ``new`` is
    written to it.

    Raises :class:`DataFolderError`.
    """
    file = path / PASSWORD
    try:
        with contextlib.suppress(FileNotFoundError):
            if kept := file.read_text("utf-8").strip():
                return kept
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as output:
            os.fchmod(output.fileno(), 0o600)
            output.write(new + "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataFolderError(f"The password in {file} cannot be read or kept: remove the file.") from error
    return new
