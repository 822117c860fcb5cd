"""A release is of one version: its tag, the three distributions and the changelog agree."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("airflow_sqlqueue/__init__.py", "fakemssql/src/fakemssql/__init__.py", "pyproject.toml", "CHANGELOG.md")


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import release

    return release


def copy_of(folder: Path) -> Path:
    for place in PLACES:
        copy = folder / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((ROOT / place).read_text("utf-8"), "utf-8")
    return folder


def version_here() -> str:
    from airflow_sqlqueue import __version__

    return __version__


def test_the_version_of_this_checkout_can_be_released(release: ModuleType) -> None:
    assert release.disagreements(f"v{version_here()}") == []


@pytest.mark.parametrize("place", PLACES)
def test_each_place_has_to_have_the_version(release: ModuleType, place: str, tmp_path: Path) -> None:
    root = copy_of(tmp_path)
    file = root / place
    file.write_text(file.read_text("utf-8").replace(version_here(), "9.9.9"), "utf-8")
    (wrong,) = release.disagreements(f"v{version_here()}", root)
    assert wrong.startswith(place)


@pytest.mark.parametrize("tag", ["v9.9.9", "9.9.9", "v0.1"])
def test_a_tag_of_another_version_is_refused(release: ModuleType, tag: str) -> None:
    assert len(release.disagreements(tag)) == len(PLACES)


def test_a_tag_begins_with_v(release: ModuleType) -> None:
    assert release.disagreements(version_here()) == [f"The tag {version_here()} does not begin with v."]
