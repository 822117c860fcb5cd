"""The commands on copies of new messages, as processes."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.cli.runner import answer, sqlqueue


def test_a_copy_of_what_is_new(url: str, tmp_path: Path) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    answer("generate", name, "--count", "20", "--seed", "3", url=url)
    drain = ("drain", name, "--staging", str(tmp_path), "--copy", "--incremental", "lake")
    assert answer(*drain, url=url)["messages"] == 20
    assert answer(*drain, url=url)["batch_id"] is None, "nothing is new"
    answer("generate", name, "--count", "5", "--seed", "4", url=url)
    assert answer(*drain, url=url)["messages"] == 5
    (copy,) = answer("copies", "--queue", name, url=url)
    assert (copy["name"], copy["messages"], copy["high"]) == ("lake", 25, 25)
    assert copy in [{**each, "age_seconds": copy["age_seconds"]} for each in answer("copies", url=url)]
    close = ("copies", "--queue", name, "--close", "lake", "--older-than", "12h")
    assert answer(*close, url=url)["closed"] == 0, "the gap was seen a moment ago"
    assert answer("copies", "--queue", name, "--reset", "lake", url=url)["reset"] == "lake"
    assert answer("copies", "--queue", name, url=url) == []
    assert answer(*drain, url=url)["messages"] == 25


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["copies", "--reset", "a", "--close", "b", "--queue", "q", "--older-than", "1h"], "Give --reset or --close"),
        (["copies", "--reset", "lake"], "A copy belongs to a queue: give --queue with --reset."),
        (["copies", "--reset", "lake", "--queue", "q"], "There is no copy 'lake' of q: 'sqlqueue copies' lists them."),
        (
            ["copies", "--close", "lake", "--queue", "q"],
            "Gaps are closed with all of --queue, --close and --older-than.",
        ),
        (["drain", "q", "--stage", "table", "--incremental", "lake"], "give copy as well"),
    ],
)
def test_options_that_do_not_fit_are_refused(url: str, arguments: list[str], sentence: str) -> None:
    done = sqlqueue(*arguments, url=url)
    assert done.returncode == 2
    assert sentence in done.stderr
