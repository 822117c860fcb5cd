"""Pictures in README and docs show the page and the report as they are, and are small."""

from __future__ import annotations

from tests.docs.markdown import PAGES, ROOT
from tests.docs.pictures import DIGEST, PICTURES, digest_of_what_is_shown


def test_pictures_are_no_older_than_what_they_show() -> None:
    assert DIGEST.read_text("utf-8").strip() == digest_of_what_is_shown(), (
        "run make screenshots, and look at the pictures"
    )


def test_each_picture_is_shown() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    names = {picture.name for picture in PICTURES.glob("*.png")}
    assert names
    assert {name for name in names if f"pictures/{name}" not in text} == set()


def test_pictures_are_small() -> None:
    sizes = {str(picture.relative_to(ROOT)): picture.stat().st_size for picture in PICTURES.glob("*.png")}
    assert {name: size for name, size in sizes.items() if size > 150_000} == {}
