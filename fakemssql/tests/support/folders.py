"""Folders for data that a test names itself."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def data_folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike pytest's ``tmp_path``: as root, PostgreSQL runs as one of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder
