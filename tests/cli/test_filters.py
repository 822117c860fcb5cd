"""Filters on the command line: drain and purge."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.cli.runner import answer, one_sentence, sqlqueue


def test_drain_and_purge_take_filters(url: str, tmp_path: Path) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    for kind, tenant in (("Shop.Placed", "a"), ("Shop.Placed", "b"), ("Shop.Billed", "a")):
        answer("send", name, "--type", kind, "--header", f"tenant={tenant}", url=url)
    staged = ("--staging", str(tmp_path / "staging"))
    drained = answer("drain", name, *staged, "--message-type", "Shop.Placed", "--header", "tenant=a", url=url)
    assert drained["messages"] == 1
    resumed = sqlqueue("drain", name, *staged, "--batch-id", drained["batch_id"], url=url)
    assert resumed.returncode != 0
    assert "another filter" in resumed.stderr
    assert "confirm that they may be lost" in one_sentence(sqlqueue("purge", name, "--since", "2020-01-01", url=url), 2)
    purged = answer("purge", name, "--from-endpoint", "sqlqueue", "--until", "2020-01-01", "--yes", url=url)
    assert purged["deleted"] == 0
    assert (
        answer("purge", name, "--since", "2020-01-01", "--message-type", "Shop.Billed", "--yes", url=url)["deleted"]
        == 1
    )
    assert answer("depth", name, url=url)["messages"] == 1
