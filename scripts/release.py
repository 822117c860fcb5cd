"""Build what a release has: the wheels, a bill of materials, and the licences of what an installation brings.

``python scripts/release.py`` (``make dist``) writes to ``dist``: a wheel and a source archive of airflow-sqlqueue and
of fakemssql, the wheel airflow-sqlqueue-core, a bill of materials in CycloneDX's form, and ``licences.md``. The last
two describe an environment in which airflow-sqlqueue was installed from these wheels with each extra in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from versions import UV, extras_of, reason_of, run, say
from versions_matrix import ROOT

DIST = ROOT / "dist"
EXTRAS = sorted(extras_of("."))

_SBOM = ("--from", "cyclonedx-bom==7.5.0", "cyclonedx-py", "environment", "--output-reproducible")


def build() -> None:
    """Build the archives into an empty folder."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(UV, "build", "--quiet", "--out-dir", str(DIST), str(ROOT))
    run(UV, "build", "--quiet", "--wheel", "--out-dir", str(DIST), str(ROOT / "core"))
    run(UV, "build", "--quiet", "--out-dir", str(DIST), str(ROOT / "fakemssql"))
    # uv makes the folder one that git ignores; archives may be added all the same.
    (DIST / ".gitignore").unlink(missing_ok=True)


def wheel(name: str) -> Path:
    """Return the wheel of a distribution."""
    (found,) = DIST.glob(f"{name}-[0-9]*.whl")
    return found


def install(environment: Path) -> dict[str, str]:
    """Install the wheel without extras, then each extra beside it; return the extra that brought each package.

    The name of the extra is empty for requirements of the wheel itself.
    """
    run(UV, "venv", "--quiet", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    brought: dict[str, str] = {}
    for extra in ("", *EXTRAS):
        own = f"{wheel('airflow_sqlqueue')}[{extra}]" if extra else str(wheel("airflow_sqlqueue"))
        beside = ["airflow_sqlqueue_core", *(["fakemssql"] if extra == "fakemssql" else [])]
        run(UV, "pip", "install", "--quiet", "--python", python, own, *(str(wheel(name)) for name in beside))
        listed = json.loads(run(UV, "pip", "list", "--quiet", "--format", "json", "--python", python))
        for each in listed:
            brought.setdefault(canonicalize_name(each["name"]), extra)
    return brought


def bill_of_materials(environment: Path) -> dict[str, Any]:
    """Write the bill of materials of an environment; return its content."""
    version = wheel("airflow_sqlqueue").name.split("-")[1]
    path = DIST / f"airflow_sqlqueue-{version}.cdx.json"
    run(UV, "tool", "run", *_SBOM, "--pyproject", str(ROOT / "pyproject.toml"), "-o", str(path), str(environment))
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def licences(bill: dict[str, Any], brought: dict[str, str]) -> tuple[str, Counter[str]]:
    """Return the table of packages and their licences, and the number of packages of each licence."""
    lines = ["| package | version | licence | brought by |", "|---|---|---|---|"]
    counts: Counter[str] = Counter()
    for each in sorted(bill["components"], key=lambda each: str(each["name"]).lower()):
        licence = licence_of(each)
        counts[licence] += 1
        extra = brought[canonicalize_name(each["name"])] or "airflow-sqlqueue"
        lines.append(f"| {each['name']} | {each['version']} | {licence} | {extra} |")
    return "\n".join(lines) + "\n", counts


def licence_of(component: dict[str, Any]) -> str:
    """Return the licence of a component: SPDX's name for it, else the package's own; ``unknown`` where it has none."""
    given = component.get("licenses", [])
    named = [each.get("license", {}) for each in given]
    known = [each.get("expression") or licence.get("id") for each, licence in zip(given, named, strict=True)]
    own = [str(each.get("name", "")).partition("\n")[0].rpartition(" :: ")[2][:80] for each in named]
    return ", ".join(dict.fromkeys(filter(None, known))) or ", ".join(dict.fromkeys(filter(None, own))) or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tag", help="the tag of the release, such as v1.2.3, which has to agree with the sources")
    if (tag := parser.parse_args().tag) and (wrong := disagreements(tag)):
        sys.exit("\n".join(wrong))
    try:
        make()
    except subprocess.SubprocessError as error:
        sys.exit(reason_of(error))


def disagreements(tag: str, root: Path = ROOT) -> list[str]:
    """Return a sentence for each place whose version is not the tag's; the changelog needs a dated section of it."""
    version = tag.removeprefix("v")
    places = {
        "airflow_sqlqueue/__init__.py": f'__version__ = "{version}"',
        "fakemssql/src/fakemssql/__init__.py": f'__version__ = "{version}"',
        "pyproject.toml": f'"airflow-sqlqueue-core=={version}"',
    }
    wrong = [f"{path} has no {text}." for path, text in places.items() if text not in (root / path).read_text("utf-8")]
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", (root / "CHANGELOG.md").read_text("utf-8"), re.M
    ):
        wrong.append(f"CHANGELOG.md has no section [{version}] with a date.")
    return [] if tag.startswith("v") and not wrong else wrong or [f"The tag {tag} does not begin with v."]


def make() -> None:
    """Build and describe everything. Raises :class:`subprocess.SubprocessError` if a program fails."""
    # Archives and a bill of materials of the same commit are the same.
    os.environ.setdefault("SOURCE_DATE_EPOCH", run("git", "log", "-1", "--format=%ct").strip())
    build()
    with tempfile.TemporaryDirectory(prefix="sqlqueue-dist-") as folder:
        environment = Path(folder, "environment")
        brought = install(environment)
        say(run(str(environment / "bin" / "sqlqueue"), "--version").strip())
        bill = bill_of_materials(environment)
    table, counts = licences(bill, brought)
    (DIST / "licences.md").write_text(table, encoding="utf-8")
    for path in sorted(DIST.iterdir()):
        say(f"{path.stat().st_size:>10,}  dist/{path.name}")
    say(f"{sum(counts.values())} packages: " + ", ".join(f"{number} {name}" for name, number in counts.most_common()))


if __name__ == "__main__":
    main()
