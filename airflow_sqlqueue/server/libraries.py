"""Shared libraries that the ODBC driver and its manager are linked with, and that small systems leave out."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

_MISSING = re.compile(r"(?<!/)\b(?P<library>(?P<name>lib[\w+-]+)\.so[.\d]*): (?:cannot open|No such file)")
"""In the loader's error, as glibc and musl write it."""

_NOT_OPENED = re.compile(r"Can't open lib '([^']+)'")
"""In unixODBC's error, which says "file not found" as well where a library that the file is linked with is missing."""

_PACKAGES = {
    "libgssapi_krb5": "libgssapi-krb5-2",
    "libkrb5": "libgssapi-krb5-2",
    "libltdl": "libltdl7",
    "libodbc": "unixodbc",
    "libodbcinst": "unixodbc",
}
"""Packages of Debian and Ubuntu. That of libgssapi_krb5 brings libkrb5."""


def missing_library(loaders_error: str) -> str | None:
    """Return what to do about the missing library that an error of the system's loader names, if it names one."""
    if not (found := _MISSING.search(loaders_error)):
        return None
    package = _PACKAGES.get(found["name"])
    command = f"run 'apt-get install {package}' on Debian or Ubuntu, or " if package else ""
    return f"the library {found['library']} is missing: {command}install the package of your system that has it."


def missing_for_driver(managers_error: str) -> str | None:
    """Return the same for an ODBC driver that unixODBC could not open."""
    found = _NOT_OPENED.search(managers_error)
    if found and Path(found[1]).is_file():
        try:
            ctypes.CDLL(found[1])
        except OSError as error:
            return missing_library(str(error))
    return None
