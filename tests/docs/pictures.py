"""Pictures in README and docs, and the digest of the files that draw what they show."""

from __future__ import annotations

import hashlib

from tests.docs.markdown import ROOT

PICTURES = ROOT / "docs" / "pictures"
DIGEST = PICTURES / "shown.sha256"


def digest_of_what_is_shown() -> str:
    """Return the SHA-256 of the page's scripts and styles, and of the program that writes the report."""
    files = sorted((ROOT / "airflow_sqlqueue" / "plugin" / "static").glob("*.*"))
    files.append(ROOT / "example_dags" / "audit_report.py")
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
