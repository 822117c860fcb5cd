"""Started by root, PostgreSQL runs as another user, and no folder that was there is opened to others for that."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fakemssql import FakeServer, FakeServerError, postgres, system_user
from fakemssql.data_folder import PARENT_VARIABLE
from fakemssql.postgres import BINARIES, Postgres, PostgresError
from fakemssql.system_user import NAME, USERS, SystemUser, SystemUserError
from support.folders import data_folder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only for root PostgreSQL runs as another user")


def modes_above(*paths: Path) -> dict[Path, int]:
    return {folder: folder.stat().st_mode for path in paths for folder in (path, *path.parents)}


@as_root
@pytest.mark.parametrize("named", [True, False], ids=["--data", "TMPDIR"])
def test_a_folder_closed_to_the_postgresql_user_is_refused_unchanged(named: bool) -> None:
    with data_folder() as outer:
        closed = outer / "closed"
        closed.mkdir(mode=0o700)
        inner = closed / "open"
        inner.mkdir()
        before = modes_above(inner)
        command = [sys.executable, "-m", "fakemssql", "--port", "0"]
        if named:
            command += ["--data", str(inner / "data")]
        environment = {**os.environ, PARENT_VARIABLE: "", "TMPDIR": str(inner)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        assert done.returncode == 1
        (sentence,) = done.stderr.splitlines()
        assert f"that user cannot enter the folder {closed}: choose another folder for the data (--data)" in sentence
        assert modes_above(inner) == before
        with pytest.raises(FakeServerError, match=f"cannot enter the folder {closed}"):
            FakeServer(inner / "data").start()
        assert modes_above(inner) == before


@as_root
def test_no_folder_above_the_data_is_changed() -> None:
    with data_folder() as outer:
        inner = outer / "kept" / "inner"
        inner.mkdir(parents=True)
        for folder in (inner, inner.parent):
            folder.chmod(0o701)
        before = modes_above(inner, BINARIES)
        with FakeServer(inner / "new" / "data"):
            assert modes_above(inner, BINARIES) == before


@as_root
def test_programs_in_a_closed_folder_are_run_from_beside_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where root has cloned the repository into a folder of his own, and its virtual environment is in there."""
    with data_folder() as outer:
        closed = outer / "closed"
        closed.mkdir(mode=0o700)
        package = BINARIES.parents[1]
        for folder in package.parent.glob(f"{package.name}*"):
            shutil.copytree(folder, closed / folder.name, symlinks=True)
        monkeypatch.setattr(postgres, "BINARIES", closed / BINARIES.relative_to(package.parent))
        before = modes_above(closed)
        server = Postgres(outer / "data" / "postgres")
        for _ in range(2):
            server.start()
            assert server.running
            server.stop()
        assert modes_above(closed) == before


@as_root
def test_a_temporary_data_folder_can_be_entered_and_not_read_by_others() -> None:
    above = Path(os.environ.get(PARENT_VARIABLE) or tempfile.gettempdir())
    before = modes_above(above)
    with FakeServer() as server:
        assert server.data.stat().st_mode & 0o777 == 0o711
        assert (server.data / "postgres").stat().st_mode & 0o777 == 0o700
        assert modes_above(above) == before


@as_root
def test_folders_that_are_made_under_a_private_umask_can_be_entered() -> None:
    with data_folder() as outer:
        before = os.umask(0o077)
        try:
            with FakeServer(outer / "new" / "data") as server:
                assert server.data.stat().st_mode & 0o777 == 0o711
        finally:
            os.umask(before)


@as_root
def test_servers_that_start_side_by_side_make_the_user_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real useradd would leave a user on the machine. Both look for one before either makes one, under a lock."""
    made: list[pwd.struct_passwd] = []
    missed = threading.Barrier(2, timeout=30)
    looked = threading.local()

    def look_up(name: str) -> pwd.struct_passwd:
        if not getattr(looked, "once", False):
            looked.once = True
            missed.wait()
        elif made:
            return made[-1]
        raise KeyError(name)

    def useradd(command: list[str], **options: object) -> None:
        assert command[0] == "useradd"
        with pytest.raises(BlockingIOError):
            lock_users()
        number = 3_000 + len(made)
        made.append(pwd.struct_passwd((command[-1], "x", number, number, "", "/", "/bin/sh")))

    monkeypatch.setattr(system_user.pwd, "getpwnam", look_up)
    monkeypatch.setattr(system_user.subprocess, "run", useradd)
    with ThreadPoolExecutor(2) as pool:
        users = list(pool.map(lambda _: system_user.needed(), range(2)))
    assert len(made) == 1
    assert users[0] == users[1] == SystemUser(NAME, 3_000, 3_000)


@as_root
def test_a_held_lock_on_the_users_does_not_block_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.setattr(system_user.pwd, "getpwnam", nobody)
    monkeypatch.setattr(system_user, "_LOCK_SECONDS", 0.0)
    kept = lock_users()
    try:
        with pytest.raises(SystemUserError, match=f"the user {NAME} that it would run as cannot be made: make it"):
            system_user.needed()
    finally:
        os.close(kept)


def lock_users() -> int:
    """Lock the list of users, if nobody has; what is open to that end."""
    folder = os.open(USERS, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise
    return folder


def test_a_folder_with_other_files_is_refused_and_not_changed() -> None:
    with data_folder() as outer:
        other = outer / "postgres"
        other.mkdir()
        (other / "letter.txt").write_text("mine")
        before = other.stat()
        with pytest.raises(PostgresError, match=f"The folder {other} holds other files than PostgreSQL's data"):
            Postgres(other).start()
        after = other.stat()
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
