"""Check the system parts that no Python package brings, and install them with apt-get as root on Debian or Ubuntu.

``python scripts/system_parts.py`` checks the ODBC driver manager and Java; if it may not install them, it ends with the
one line to run. ``--browser`` checks Debian's chromium, which tests and screenshots of the page need; it succeeds
without the browser as well and says so: ``make test-ui`` then skips its tests.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.server.settings import packaged_driver
from airflow_sqlqueue.spark.session import check_java

FREETDS = "tdsodbc"
"""Only tests of fakemssql with FreeTDS need it, so it is never asked for."""
_APT = shutil.which("apt-get") is not None


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _has_driver_manager() -> bool:
    if platform.system() == "Darwin":
        return any(Path(folder, "lib/libodbc.2.dylib").exists() for folder in ("/opt/homebrew", "/usr/local"))
    return _loads("libodbc.so.2")


def _has_driver_libraries() -> bool:
    """Return whether Microsoft's driver finds the Kerberos library that it is linked with; small images leave it
    out.
    """
    return packaged_driver() is None or platform.system() == "Darwin" or _loads("libgssapi_krb5.so.2")


def _has_java() -> bool:
    try:
        return bool(check_java())
    except ConfigurationError:
        return False


def _java_package() -> str:
    """Return the oldest of the long-term releases that Spark takes and this distribution has."""
    for version in (17, 21):
        package = f"openjdk-{version}-jre-headless"
        known = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False) if _APT else None
        # It succeeds, with nothing to show, for a package that others only name.
        if known and known.stdout:
            return package
    return "default-jre-headless"


def _missing() -> list[str]:
    """Return the Debian packages that are missing."""
    parts = {
        "unixodbc": _has_driver_manager(),
        "libgssapi-krb5-2": _has_driver_libraries(),
        _java_package(): _has_java(),
    }
    return [package for package, present in parts.items() if not present]


def _install(what: str, packages: Callable[[], list[str]], *, check: bool) -> None:
    """Install packages with apt-get, named after the update of its lists; with ``check`` its errors are raised."""
    sys.stdout.write(f"Installing {what} with apt-get ...\n")
    sys.stdout.flush()
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=check, env=environment, stdout=subprocess.DEVNULL)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages()]
    subprocess.run(command, check=check, env=environment, stdout=subprocess.DEVNULL)


def check_parts() -> int:
    missing = _missing()
    if not missing:
        return 0
    if platform.system() == "Darwin":
        line = "brew install " + " ".join("openjdk@17" if "jre" in package else package for package in missing)
    elif os.geteuid() == 0 and _APT:
        _install("the system parts", lambda: [*_missing(), FREETDS], check=True)
        missing = _missing()
        if not missing:
            return 0
        line = f"apt-get install {' '.join(missing)}"
    else:
        line = f"sudo apt-get install {' '.join(missing)}"
    sys.stderr.write(f"The system needs {', '.join(missing)}. Run this line, then try again:\n\n    {line}\n\n")
    return 1


def check_browser() -> int:
    def is_there() -> bool:
        return bool(os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser"))

    if not is_there() and os.geteuid() == 0 and _APT:
        _install("chromium", lambda: ["chromium"], check=False)
    if not is_there():
        sys.stderr.write("chromium is missing: `sudo apt-get install chromium`, or name a browser in CHROMIUM.\n")
    return 0


if __name__ == "__main__":
    sys.exit(check_browser() if "--browser" in sys.argv[1:] else check_parts())
