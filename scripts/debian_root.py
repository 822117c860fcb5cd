"""Root folder of Debian's next release: a Python that this machine lacks, and Debian has there.

root makes it with debootstrap, which apt-get installs. A command in it sees the clone at its usual path, and the mounts
end with the command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

PYTHONS = {"3.14": "testing"}
"""Debian's releases by the Pythons that they are used for."""

_PACKAGES = "ca-certificates,unixodbc,libgssapi-krb5-2"
_MOUNTS = """
root=$1 clone=$2
shift 2
mkdir -p "$root$clone" &&
    mount --bind "$clone" "$root$clone" &&
    mount -t proc proc "$root/proc" &&
    mount --rbind /dev "$root/dev" &&
    mount --bind /etc/ssl/certs "$root/etc/ssl/certs" &&
    exec chroot "$root" env --chdir "$clone" "$@"
"""


def is_possible(python: str) -> bool:
    """Return whether this machine can have the Python in a root folder."""
    return python in PYTHONS and os.geteuid() == 0 and shutil.which("apt-get") is not None


def enter(root: Path, clone: Path) -> list[str]:
    """Return the beginning of a command that runs in a root folder, in the clone."""
    return ["unshare", "--mount", "sh", "-c", _MOUNTS, "sh", str(root), str(clone)]


def make(root: Path, python: str, run: Callable[..., str]) -> None:
    """Make the root folder, a minute's work, unless it is there. Raises :class:`subprocess.SubprocessError`."""
    if (root / f"usr/bin/python{python}").exists():
        return
    if shutil.which("debootstrap") is None:
        run("apt-get", "update", "-qq")
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "debootstrap")
    begun = root.with_name(f"{root.name}.begun")
    shutil.rmtree(begun, ignore_errors=True)
    packages = f"--include={_PACKAGES},python{python},python{python}-venv"
    # Its mounts end with it, also where it fails.
    command = ["unshare", "--mount", "debootstrap", "--variant=minbase", packages, PYTHONS[python], str(begun)]
    try:
        run(*command)
    except subprocess.CalledProcessError as error:
        # It says on standard output what was wrong.
        error.stderr = f"{error.stdout[-1_000:]}{error.stderr}"
        raise
    begun.rename(root)
