"""The hosted manual: its first page leads to the newest release, and programs find their files at the top."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def manual(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import hosted_manual

    monkeypatch.setattr(hosted_manual, "SITE", tmp_path)
    for name in ("main", "v1.0.0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "llms.txt").write_text(f"pages of {name}", "utf-8")
    return hosted_manual


def test_the_first_page_leads_to_the_newest_release(manual: ModuleType, tmp_path: Path) -> None:
    manual.write_entrance(["v1.0.0", "main"])
    assert 'url=v1.0.0/"' in (tmp_path / "index.html").read_text("utf-8")
    versions = (tmp_path / "versions.html").read_text("utf-8")
    assert all(f'<a href="{name}/">{name}</a>' in versions for name in ("v1.0.0", "main"))
    assert (tmp_path / "llms.txt").read_text("utf-8") == "pages of v1.0.0"


def test_before_the_first_release_it_leads_to_main(manual: ModuleType, tmp_path: Path) -> None:
    manual.write_entrance(["main"])
    assert 'url=main/"' in (tmp_path / "index.html").read_text("utf-8")
    assert not (tmp_path / "sitemap.xml").exists()
