"""Staging folders that fail or hang, for fsspec. They keep files in memory, as a store keeps them that is far away."""

from __future__ import annotations

import errno
import io
import threading
from typing import Any

from airflow_sqlqueue.drain.storage.folder import StagingFolder


class Store:
    """A store of ``room`` bytes. ``closing`` is called when a file is to be closed, before it is there."""

    protocol = "store"

    def __init__(self, room: int = 2**62) -> None:
        self.files: dict[str, bytes] = {}
        self.room = room

    @property
    def staging(self) -> StagingFolder:
        return StagingFolder(self, "bucket/staging", "store://bucket/staging")

    def open(self, path: str, mode: str, autocommit: bool) -> io.BytesIO:
        assert mode == "wb"
        assert autocommit
        return Upload(self, path)

    def cat_file(self, path: str) -> bytes:
        return self.files[path]

    def rm_file(self, path: str) -> None:
        del self.files[path]

    def closing(self) -> None:
        """Overridden by stores that hang."""

    def discarding(self) -> None:
        """Overridden by stores that hang."""


class Upload(io.BytesIO):
    """A file on its way into a store: it is there, whole, once it was closed."""

    def __init__(self, store: Store, path: str) -> None:
        super().__init__()
        self._store, self._path, self._given_up = store, path, False

    def write(self, data: Any) -> int:
        if self._store.room < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        self._store.room -= len(data)
        return super().write(data)

    def close(self) -> None:
        if not self.closed and not self._given_up:
            self._store.closing()
            self._store.files[self._path] = self.getvalue()
        super().close()

    def discard(self) -> None:
        self._given_up = True
        self._store.discarding()
        self.close()


class HangingStore(Store):
    """A store whose first file hangs when it is to be closed, until :attr:`released`."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs, self.released = threading.Event(), threading.Event()

    def closing(self) -> None:
        if not self.hangs.is_set():
            self.hangs.set()
            assert self.released.wait(60)


class DeafStore(Store):
    """A store without room that does not answer when a file is to be discarded, until :attr:`released`."""

    def __init__(self) -> None:
        super().__init__(room=0)
        self.hangs, self.released = threading.Event(), threading.Event()

    def discarding(self) -> None:
        self.hangs.set()
        assert self.released.wait(60)
