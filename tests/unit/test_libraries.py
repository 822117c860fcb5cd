"""A library that the ODBC driver, or its manager, needs and the system lacks: the error names it and its package.

The driver is that of the package mssql-python, in a copy that asks for a version of the library that no system has.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_sqlqueue.errors import DriverNotFoundError
from airflow_sqlqueue.server.connection import open_connection
from airflow_sqlqueue.server.libraries import missing_library
from airflow_sqlqueue.server.settings import ConnectionSettings, packaged_driver

PACKAGES = {
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libkrb5.so.3": "libgssapi-krb5-2",
    "libodbcinst.so.2": "unixodbc",
    "libstdc++.so.6": None,
}
"""What Microsoft's driver is linked with, and the package that the sentence names."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A port that is open, so that the driver is loaded."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def driver_linked_with(library: str, folder: Path) -> tuple[Path, str]:
    """A copy of the driver that needs another version of a library, and that library's name."""
    original = packaged_driver()
    if original is None or original.suffix == ".dylib":
        pytest.skip("Microsoft's driver for Linux is not installed")
    other = library[:-1] + "9"
    content = original.read_bytes()
    assert content.count(f"{library}\0".encode()) == 1
    copy = folder / original.name
    copy.write_bytes(content.replace(f"{library}\0".encode(), f"{other}\0".encode()))
    return copy, other


def sentence(driver: str, port: int) -> str:
    with pytest.raises(DriverNotFoundError) as failure:
        open_connection(ConnectionSettings("127.0.0.1", "shop", port, driver=driver, login_timeout=1))
    return str(failure.value)


@pytest.mark.parametrize(("library", "package"), PACKAGES.items())
def test_a_driver_without_one_of_its_libraries(library: str, package: str | None, tmp_path: Path, port: int) -> None:
    driver, other = driver_linked_with(library, tmp_path)
    debian = f"run 'apt-get install {package}' on Debian or Ubuntu, or " if package else ""
    assert sentence(str(driver), port) == (
        f"The ODBC driver {str(driver)!r} cannot be loaded: the library {other} is missing: "
        f"{debian}install the package of your system that has it."
    )


def test_an_installed_driver_without_one_of_its_libraries(tmp_path: Path, port: int) -> None:
    """unixODBC reads its list of drivers once, so this runs in a process of its own."""
    driver, other = driver_linked_with("libgssapi_krb5.so.2", tmp_path)
    name = "ODBC Driver 18 for SQL Server"
    (tmp_path / "odbcinst.ini").write_text(f"[{name}]\nDriver={driver}\n", encoding="utf-8")
    program = (
        "from airflow_sqlqueue.server.connection import open_connection\n"
        "from airflow_sqlqueue.server.settings import ConnectionSettings\n"
        f"open_connection(ConnectionSettings('127.0.0.1', 'shop', {port}, login_timeout=1))"
    )
    variables = os.environ | {"ODBCSYSINI": str(tmp_path), "ODBCINSTINI": "odbcinst.ini"}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    assert f"'for SQL Server' cannot be loaded: the library {other} is missing: run 'apt-get" in done.stderr, (
        done.stderr
    )


def test_a_driver_that_is_absent_or_of_another_kind(tmp_path: Path, port: int) -> None:
    original = packaged_driver()
    nothing = tmp_path / "libmsodbcsql-none.so"
    text = tmp_path / "libmsodbcsql-text.so"
    text.write_text("no library", encoding="utf-8")
    alone = shutil.copy(original, tmp_path / "libmsodbcsql.so") if original else text
    for driver in (nothing, text, alone):
        assert "cannot be loaded: name an installed one, or run \"pip install 'airflow-" in sentence(str(driver), port)


def test_the_driver_manager_without_its_library(tmp_path: Path) -> None:
    """Another pyodbc in its place, whose import fails with the loader's error."""
    lines = (
        "import ctypes, sys",
        "try: ctypes.CDLL(sys.argv[1])",
        "except OSError as error: raise ImportError(str(error))",
    )
    (tmp_path / "pyodbc.py").write_text("\n".join(lines), encoding="utf-8")
    program = "from airflow_sqlqueue.server.settings import load_pyodbc; load_pyodbc()"
    variables = os.environ | {"PYTHONPATH": str(tmp_path)}

    def refused(library: str) -> str:
        command = [sys.executable, "-c", program, library]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        return done.stderr.splitlines()[-1].partition(": ")[2]

    begin = "The ODBC driver manager cannot be loaded: "
    for library, package in {"libodbc.so.99": "unixodbc", "libltdl.so.99": "libltdl7"}.items():
        assert refused(library).startswith(f"{begin}the library {library} is missing: run 'apt-get install {package}'")
    assert refused(str(tmp_path / "pyodbc.py")) == f"{begin}install unixODBC ('brew install unixodbc' on macOS)."


@pytest.mark.parametrize(
    ("text", "library"),
    [
        ("libkrb5.so.3: cannot open shared object file: No such file or directory", "libkrb5.so.3"),
        (
            "Error loading shared library libkrb5.so.3: No such file or directory (needed by /v/libx.so.2)",
            "libkrb5.so.3",
        ),
        ("/v/libmsodbcsql-18.6.so.2.1: cannot open shared object file: No such file or directory", None),
        ("/lib/libm.so.6: version `GLIBC_2.38' not found (required by /v/libmsodbcsql-18.6.so.2.1)", None),
        ("/v/libmsodbcsql.so: wrong ELF class: ELFCLASS32", None),
        ("dlopen(/v/libmsodbcsql.18.dylib, 0x0006): Library not loaded: /opt/lib/libssl.3.dylib", None),
    ],
)
def test_texts_of_loaders(text: str, library: str | None) -> None:
    found = missing_library(text)
    assert (found is None) is (library is None)
    assert library is None or f"the library {library} is missing" in str(found)


def test_pages_that_install_the_driver_install_what_it_is_linked_with() -> None:
    root = Path(__file__).resolve().parents[2]
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in (root / "README.md", root / "fakemssql/README.md", *root.glob("docs/**/*"))
        if path.suffix in (".md", "") and path.is_file() and "_build" not in path.parts
    }
    installs = re.compile(r"pip install .*\[(?:\w+,)*(?:driver|odbc)\b.*\]")
    needing = {name for name, text in texts.items() if installs.search(text)}
    assert needing >= {"README.md", "docs/tutorial.md", "docs/guides/service/Dockerfile", "fakemssql/README.md"}
    for name in needing:
        assert {"unixodbc", "libgssapi-krb5-2"} <= set(texts[name].split()), name
