from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_sqlqueue.drain.manifest import STATES, Batch
from airflow_sqlqueue.errors import ConfigurationError

VALUES: dict[str, Any] = {
    "batch_id": "0b9a6f5e-6f0f-5f3a-9a57-0f5f2b0c1d11",
    "queue": "audit@[dbo]@[shop]",
    "state": "sealed",
    "paths": ("/data/a.parquet", "/data/b.parquet"),
    "messages": 3,
    "expired": 1,
    "bytes": 6000,
    "parts": 2,
}


@pytest.mark.parametrize("state", STATES)
def test_a_batch_survives_json(state: str) -> None:
    batch = Batch(**{**VALUES, "state": state})
    assert Batch.from_dict(json.loads(json.dumps(batch.to_dict()))) == batch


def test_an_empty_batch_names_no_files() -> None:
    batch = Batch(**{**VALUES, "paths": (), "messages": 0, "bytes": 0, "parts": 0})
    assert Batch.from_dict(batch.to_dict()).paths == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"batch_id": ""}, "batch_id"),
        ({"queue": None}, "queue"),
        ({"state": "closed"}, "closed"),
        ({"paths": ["/data/a.parquet", "/data/b.parquet"]}, "tuple"),
        ({"paths": ("/data/a.parquet", "")}, "paths"),
        ({"paths": ("/data/a.parquet", "/data/a.parquet")}, "twice"),
        ({"parts": 3}, "3 files"),
        ({"paths": (), "parts": 0}, "no part"),
        ({"stage": "table"}, "0 files"),
        ({"stage": "tape"}, "tape"),
        ({"quarantined": -1}, "quarantined"),
        ({"messages": -1}, "messages"),
        ({"expired": 1.0}, "expired"),
        ({"bytes": True}, "bytes"),
        ({"parts": -1}, "parts"),
    ],
)
def test_contradictions_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Batch(**{**VALUES, **change})


def test_an_unknown_key_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="does not know the manifest's rows"):
        Batch.from_dict({**VALUES, "rows": 3})


def test_a_missing_key_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="misses the manifest's state"):
        Batch.from_dict({name: value for name, value in VALUES.items() if name != "state"})


@pytest.mark.parametrize("values", [None, [], "text"])
def test_a_manifest_that_is_not_an_object_is_refused(values: Any) -> None:
    with pytest.raises(ConfigurationError, match="JSON object"):
        Batch.from_dict(values)


def test_paths_that_are_text_are_not_split_into_letters() -> None:
    with pytest.raises(ConfigurationError, match="tuple"):
        Batch.from_dict({**VALUES, "paths": "/data/a.parquet"})
