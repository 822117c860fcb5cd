"""Fetch the jars that tests and the bench need from Maven Central, once, into ``.jars/``.

``make jars`` runs ``python scripts/jars.py``; with ``--optional`` it succeeds without the jars as well, and says so.
Of jars for one version of Spark it fetches those for the PySpark of the Python that runs it.

``jars.lock`` pins them by version and SHA-256; ``airflow_sqlqueue/versions/jars.py`` has the versions. Ivy, which comes
with PySpark and resolves its ``spark.jars.packages``, downloads them: the environment variable
``DEFAULT_ARTIFACT_REPOSITORY`` names a mirror, as for Spark, and ``JAVA_TOOL_OPTIONS`` a proxy and certificates. A jar
that was put into the folder by hand is used if its checksum is right.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from xml.sax.saxutils import quoteattr

from airflow_sqlqueue.versions.jars import minor

FOLDER = Path(__file__).parents[1] / ".jars"
LOCK = Path(__file__).with_suffix(".lock")
_SECONDS, _OPTIONAL_SECONDS = 900, 120


class JarError(Exception):
    """A jar cannot be fetched, or is not the pinned one."""


@dataclass(frozen=True)
class Jar:
    """A line of the lock file, below the heading ``use``, which may name a version of Spark: ``delta 4.0``."""

    use: str
    spark: str
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    def check(self, path: Path) -> None:
        with path.open("rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
        if found != self.sha256:
            raise JarError(
                f"{path} is not the jar that {LOCK.name} pins (SHA-256 {found[:12]}…, not {self.sha256[:12]}…): "
                "delete it and run `make jars`; if this error comes again, do not trust the repository of the jar."
            )


def read_lock(lock: Path = LOCK) -> list[Jar]:
    """Return the jars of the lock file."""
    jars, use, spark = [], "", ""
    for line in lock.read_text("utf-8").splitlines():
        if line.startswith("["):
            use, _, spark = line.strip("[]").partition(" ")
        elif line and not line.startswith("#"):
            coordinates, sha256 = line.split()
            group, artifact, version = coordinates.split(":")
            jars.append(Jar(use, spark, group, artifact, version, sha256))
    return jars


def own_jars() -> list[Jar]:
    """Return the jars of the lock file for this environment's version of Spark."""
    return [jar for jar in read_lock() if jar.spark in ("", minor(version("pyspark")))]


def jars_for(*uses: str, folder: Path = FOLDER) -> list[str] | None:
    """Return the paths of the jars of these uses; None if one is missing, or the lock file has none for this Spark."""
    jars = [jar for jar in own_jars() if jar.use in uses]
    paths = [folder / jar.name for jar in jars]
    is_whole = {jar.use for jar in jars} == {*uses} and all(path.exists() for path in paths)
    return [str(path) for path in paths] if is_whole else None


def fetch(jars: Iterable[Jar], folder: Path = FOLDER, seconds: float = _SECONDS) -> int:
    """Check the jars of the folder, and download the missing ones; return their number."""
    missing = []
    for jar in jars:
        path = folder / jar.name
        if path.exists():
            jar.check(path)
        else:
            missing.append(jar)
    if missing:
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
            _download(missing, Path(temporary), seconds)
            for jar in missing:
                jar.check(Path(temporary, jar.name))
                Path(temporary, jar.name).replace(folder / jar.name)
    return len(missing)


def _download(jars: list[Jar], into: Path, seconds: float) -> None:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    ivy = next(Path(sysconfig.get_path("purelib"), "pyspark", "jars").glob("ivy-*.jar"), None)
    if not java or not ivy:
        raise JarError("Jars are fetched by PySpark and Java: run `make setup`.")
    mirror = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    root = f"root={quoteattr(mirror)}" if mirror else ""
    settings, module = into / "settings.xml", into / "ivy.xml"
    settings.write_text(
        f'<ivysettings><settings defaultResolver="repository"/><caches defaultCacheDir={quoteattr(str(into / "cache"))}'
        f'/><resolvers><ibiblio name="repository" m2compatible="true" usepoms="false" {root}/></resolvers>'
        "</ivysettings>",
        "utf-8",
    )
    wanted = "".join(f'<dependency org="{j.group}" name="{j.artifact}" rev="{j.version}"/>' for j in jars)
    module.write_text(
        '<ivy-module version="2.0"><info organisation="airflow-sqlqueue" module="jars"/>'
        f"<dependencies>{wanted}</dependencies></ivy-module>",
        "utf-8",
    )
    command = [java, "-jar", str(ivy), "-settings", str(settings), "-ivy", str(module), "-notransitive"]
    command += ["-retrieve", f"{into}/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise JarError(
            f"The repository of jars did not give {len(jars)} jars within {seconds:g} seconds: try `make jars`."
        ) from error
    absent = [jar.name for jar in jars if not Path(into, jar.name).exists()]
    if absent:
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "Exception" in line]
        sys.stderr.writelines(f"{line}\n" for line in said[:1])
        raise JarError(
            f"{len(absent)} of {len(jars)} jars could not be fetched, {absent[0]} among them: reach Maven Central, or "
            "name a mirror of it in DEFAULT_ARTIFACT_REPOSITORY."
        )


def stop_java() -> None:
    """End the Java machine of this process's earlier sessions: a Java machine takes jars only when it starts."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None


def main(optional: bool) -> int:
    try:
        fetched = fetch(own_jars(), seconds=_OPTIONAL_SECONDS if optional else _SECONDS)
    except JarError as error:
        sys.stderr.write(f"{error}\n" + ("The tests that need jars are skipped.\n" if optional else ""))
        return 0 if optional else 1
    if fetched:
        sys.stdout.write(f"Fetched {fetched} jars into {FOLDER.name}/.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main("--optional" in sys.argv[1:]))
