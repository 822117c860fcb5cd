"""Build the manual of each release and of this checkout into ``docs/_build/site``, a folder for each (``make site``).

The first page leads to the newest release, or to ``main`` before the first one; ``versions.html`` lists all. The manual
of a release is built by its own ``make docs``, in a worktree of its tag.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
HTML, SITE = Path("docs", "_build", "html"), ROOT / "docs" / "_build" / "site"
MAIN = "main"


def releases() -> list[str]:
    """Return the tags of releases, the newest first."""
    tags = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(tags.stdout.split(), key=Version, reverse=True)


def build(checkout: Path, name: str) -> None:
    """Build the manual of a checkout into its folder."""
    address = os.environ.get("SITE_URL", "")
    environment = os.environ | ({"SITE_URL": f"{address}{name}/"} if address else {})
    subprocess.run(["make", "docs"], cwd=checkout, check=True, env=environment)
    shutil.copytree(checkout / HTML, SITE / name, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))


def build_release(tag: str) -> None:
    """Build the manual of a release in a worktree."""
    with tempfile.TemporaryDirectory(prefix="sqlqueue-site-") as folder:
        checkout = Path(folder, tag)
        subprocess.run(["git", "worktree", "add", "--detach", str(checkout), tag], cwd=ROOT, check=True)
        try:
            build(checkout, tag)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(checkout)], cwd=ROOT, check=True)


def write_entrance(names: list[str]) -> None:
    """Write the first page, the list of versions, and the files that programs look for at the top."""
    first = names[0]
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>airflow-sqlqueue</title>'
    leads = f'<meta http-equiv="refresh" content="0; url={first}/"><a href="{first}/">The manual of {first}</a>'
    items = "".join(f'<li><a href="{name}/">{name}</a></li>' for name in names)
    (SITE / "index.html").write_text(f"{head}{leads}</html>\n", "utf-8")
    (SITE / "versions.html").write_text(f"{head}<h1>Versions of the manual</h1><ul>{items}</ul></html>\n", "utf-8")
    for name in ("llms.txt", "sitemap.xml"):
        if (SITE / first / name).exists():
            shutil.copy(SITE / first / name, SITE)


def main() -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    tags = releases()
    build(ROOT, MAIN)
    for tag in tags:
        build_release(tag)
    write_entrance([*tags, MAIN])
    sys.stdout.write(f"The site is {SITE}/index.html\n")


if __name__ == "__main__":
    main()
