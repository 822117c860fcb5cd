"""Check the parts that no Python package brings: the ODBC driver manager and Java; install them where we may.

As root on Debian or Ubuntu they are installed with apt-get; elsewhere this ends with the one line to run.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from airflow_sqlqueue.server.settings import packaged_driver

JAVA = 17
FREETDS = "tdsodbc"
"""Only the tests with FreeTDS need it, so it is never asked for."""
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
    """Whether Microsoft's driver finds the Kerberos library it is linked with, which small images leave out."""
    return packaged_driver() is None or platform.system() == "Darwin" or _loads("libgssapi_krb5.so.2")


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if not java:
        return False
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except OSError:
        return False
    version = re.search(r'version "(\d+)', answer)
    return bool(version) and int(version[1]) >= JAVA  # type: ignore[index]


def _java_package() -> str:
    """The oldest of the long-term releases that Spark takes and this distribution has."""
    for version in (17, 21):
        package = f"openjdk-{version}-jre-headless"
        known = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False) if _APT else None
        if known and known.returncode == 0:
            return package
    return "default-jre-headless"


def _missing() -> list[str]:
    """The Debian packages that are missing."""
    parts = {
        "unixodbc": _has_driver_manager(),
        "libgssapi-krb5-2": _has_driver_libraries(),
        _java_package(): _has_java(),
    }
    return [package for package, present in parts.items() if not present]


def main() -> int:
    missing = _missing()
    if not missing:
        return 0
    if platform.system() == "Darwin":
        line = "brew install " + " ".join("openjdk@17" if "jre" in package else package for package in missing)
    elif os.geteuid() == 0 and _APT:
        sys.stdout.write("Installing the system parts with apt-get ...\n")
        sys.stdout.flush()
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *_missing(), FREETDS]
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(install, check=True, env=environment, stdout=subprocess.DEVNULL)
        still = _missing()
        if not still:
            return 0
        line = f"apt-get install {' '.join(still)}"
    else:
        line = f"sudo apt-get install {' '.join(missing)}"
    sys.stderr.write(f"The system needs {', '.join(missing)}. Run this line, then try again:\n\n    {line}\n\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
