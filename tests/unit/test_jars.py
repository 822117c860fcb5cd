"""Downloads of ``make jars``: by Ivy, from a repository in a folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from jars import LOCK, Jar, JarError, fetch, jars_for, main, read_lock

CONTENT = b"a jar"


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jar:
    """A jar that a repository has."""
    pytest.importorskip("pyspark", reason="PySpark, which fetches jars, is not installed")
    home = tmp_path / "repository" / "org" / "example" / "thing_2.13" / "1.2-3"
    home.mkdir(parents=True)
    (home / "thing_2.13-1.2-3.jar").write_bytes(CONTENT)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", (tmp_path / "repository").as_uri() + "/")
    return Jar("things", "org.example", "thing_2.13", "1.2-3", hashlib.sha256(CONTENT).hexdigest())


def test_a_jar_is_fetched_once(jar: Jar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "jars"
    assert fetch([jar], folder) == 1
    assert [path.name for path in folder.iterdir()] == [jar.name]
    assert (folder / jar.name).read_bytes() == CONTENT
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert fetch([jar], folder) == 0
    (folder / jar.name).write_bytes(b"another")
    with pytest.raises(JarError, match=r"is not the jar that jars\.lock pins"):
        fetch([jar], folder)


def test_a_jar_that_is_not_the_pinned_one_is_not_kept(jar: Jar, tmp_path: Path) -> None:
    other, absent = Jar("things", jar.group, jar.artifact, jar.version, "0" * 64), tmp_path / "jars"
    with pytest.raises(JarError, match="do not trust the repository"):
        fetch([other], absent)
    assert list(absent.iterdir()) == []


def test_a_jar_that_cannot_be_had(
    jar: Jar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = Jar("things", "org.example", "absent", "1", "0" * 64)
    monkeypatch.setattr("jars.FOLDER", tmp_path / "jars")
    monkeypatch.setattr("jars.fetch", lambda jars, seconds: fetch([missing], tmp_path / "jars", seconds))
    assert [main(optional) for optional in (False, True)] == [1, 0]
    errors = capsys.readouterr().err
    assert errors.count("1 of 1 jars could not be fetched, absent-1.jar among them: reach Maven Central") == 2
    assert errors.count("The tests that need jars are skipped.") == 1


def test_the_lock_file(tmp_path: Path) -> None:
    """Each jar once, by name and checksum, for Delta of the Spark and hadoop-aws of the Hadoop that PySpark has."""
    import pyspark

    jars = read_lock(LOCK)
    assert {jar.use for jar in jars} == {"delta", "s3a", "jtds", "mssql-jdbc"}
    assert len({jar.name for jar in jars}) == len(jars)
    assert all(len(jar.sha256) == 64 for jar in jars)
    version = {jar.artifact: jar.version for jar in jars}
    assert f"delta-spark_{'.'.join(pyspark.__version__.split('.')[:2])}_2.13" in version
    own = Path(pyspark.__file__).parent / "jars"
    assert (own / f"hadoop-client-api-{version['hadoop-aws']}.jar").exists()
    assert jars_for("delta", folder=tmp_path) is None
