"""Pictures in README and docs, and the digest of the files that draw what they show."""

from __future__ import annotations

import hashlib

from tests.docs.markdown import ROOT

PICTURES = ROOT / "docs" / "pictures"
DIGEST = PICTURES / "shown.sha256"
_SCRIPTS = ("actions", "app", "charts", "failure_actions", "failures", "format", "messages", "parts", "queues", "table")


def digest_of_what_is_shown() -> str:
    """Return the SHA-256 of the page's style and the scripts of its shown views, and of the program of the report."""
    static = ROOT / "airflow_sqlqueue" / "plugin" / "static"
    files = [static / "app.css", *(static / f"{name}.js" for name in _SCRIPTS)]
    files.append(ROOT / "example_dags" / "audit_report.py")
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
