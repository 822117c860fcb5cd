"""Downloads of ``make jars``: by Ivy, from a repository in a folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from unittest.mock import Mock

import pytest
from jars import LOCK, Jar, JarError, fetch, jars_for, main, own_jars, read_lock

from airflow_sqlqueue.versions.jars import DELTA, ICEBERG, PACKAGES, S3A, missing_package, package_for

CONTENT = b"a jar"
ROOT = LOCK.parents[1]


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jar:
    """A jar that a repository has."""
    pytest.importorskip("pyspark", reason="PySpark, which fetches jars, is not installed")
    home = tmp_path / "repository" / "org" / "example" / "thing_2.13" / "1.2-3"
    home.mkdir(parents=True)
    (home / "thing_2.13-1.2-3.jar").write_bytes(CONTENT)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", (tmp_path / "repository").as_uri() + "/")
    return Jar("things", "", "org.example", "thing_2.13", "1.2-3", hashlib.sha256(CONTENT).hexdigest())


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
    other, absent = Jar("things", "", jar.group, jar.artifact, jar.version, "0" * 64), tmp_path / "jars"
    with pytest.raises(JarError, match="do not trust the repository"):
        fetch([other], absent)
    assert list(absent.iterdir()) == []


def test_a_jar_that_cannot_be_had(
    jar: Jar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = Jar("things", "", "org.example", "absent", "1", "0" * 64)
    with pytest.raises(JarError) as failure:
        fetch([missing], tmp_path / "jars")
    monkeypatch.setattr("jars.fetch", Mock(side_effect=failure.value))
    assert [main(optional) for optional in (False, True)] == [1, 0]
    errors = capsys.readouterr().err
    assert errors.count("1 of 1 jars could not be fetched, absent-1.jar among them: reach Maven Central") == 2
    assert errors.count("The tests that need jars are skipped.") == 1


def test_the_lock_file(tmp_path: Path) -> None:
    """Each jar by name and checksum, those for a version of Spark as the table of packages has them."""
    jars = read_lock(LOCK)
    assert {jar.use for jar in jars} == {"delta", "iceberg", "s3a", "jtds", "mssql-jdbc"}
    assert all(len(jar.sha256) == 64 for jar in jars)
    assert len({jar.name for jar in jars}) == len({(jar.name, jar.sha256) for jar in jars})
    for spark, packages in PACKAGES.items():
        locked = [f"{jar.group}:{jar.artifact}:{jar.version}" for jar in jars if jar.spark == spark]
        assert set(locked) - set(packages.values()) <= {"io.delta:delta-storage:4.4.0"}
        assert set(packages.values()) <= set(locked)
        assert len(locked) == len(set(locked))


def test_jars_are_those_for_the_installed_spark(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    own = {jar.artifact: jar.version for jar in own_jars()}
    assert len(own) == len(own_jars())
    folder = Path(pyspark.__file__).parent / "jars"
    assert (folder / f"hadoop-client-api-{own['hadoop-aws']}.jar").exists()
    assert package_for(S3A, pyspark.__version__) == f"org.apache.hadoop:hadoop-aws:{own['hadoop-aws']}"
    assert jars_for("delta", folder=tmp_path) is None
    for jar in own_jars():
        (tmp_path / jar.name).touch()
    assert (jars_for("delta", folder=tmp_path) is None) == (package_for(DELTA, pyspark.__version__) is None)
    assert jars_for("s3a", "of no jar", folder=tmp_path) is None


def test_a_spark_without_a_package_is_named_in_one_sentence() -> None:
    assert package_for(DELTA, "4.1.3") == "io.delta:delta-spark_4.1_2.13:4.4.0"
    assert package_for(ICEBERG, "4.2.0") is None
    assert package_for(DELTA, "9.9.0") is None
    assert missing_package(DELTA, "9.9.0") == (
        "Delta Lake has no known release for Spark 9.9, only for 4.0, 4.1 and 4.2: use one of these."
    )


def test_the_docs_have_the_table_of_packages() -> None:
    lines = ["| Spark | Delta Lake | Iceberg | S3 (hadoop-aws) |", "| --- | --- | --- | --- |"]
    for spark, packages in PACKAGES.items():
        cells = [f"`{packages[what]}`" if what in packages else "none yet" for what in (DELTA, ICEBERG, S3A)]
        lines.append(f"| {spark} | {' | '.join(cells)} |")
    table = "\n".join(lines)
    assert f"\n\n{table}\n\n" in (ROOT / "docs/guides/spark-sinks.md").read_text("utf-8"), table
