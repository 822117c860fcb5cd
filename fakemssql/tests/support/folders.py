"""Folders for data that a test names itself."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fakemssql.data_folder import PARENT_VARIABLE


@contextlib.contextmanager
def data_folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike pytest's ``tmp_path``: as root, PostgreSQL runs as one of them."""
    with tempfile.TemporaryDirectory(dir=os.environ.get(PARENT_VARIABLE) or None) as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder
