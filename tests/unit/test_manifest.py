from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_sqlqueue.drain.manifest import STATES, Batch, check_readable, manifest_of
from airflow_sqlqueue.errors import BatchError, BatchMismatchError, ConfigurationError

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
        ({"kept": 1}, "kept is true or false"),
        ({"redacted": "f" * 63}, "fingerprint"),
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


def test_an_id_that_is_no_uuid_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'batch-1' is no UUID"):
        _ = Batch(**{**VALUES, "batch_id": "batch-1"}).uuid


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


ID = VALUES["batch_id"]
MANY: dict[str, Any] = {
    **VALUES,
    "paths": tuple(f"file:///staging/{ID}/part-{ID[:-4]}{n:04}.parquet" for n in range(300)),
    "messages": 300,
    "parts": 300,
}


def test_xcom_has_the_paths_of_few_files_or_the_manifest_file_of_many() -> None:
    few, many = Batch(**VALUES), Batch(**MANY)
    assert few.to_reference() == few.to_dict()
    given = many.to_reference()
    assert {**many.to_dict(), "manifest": given["manifest"]}.keys() - given.keys() == {"paths"}
    assert manifest_of(given) == many.manifest_path
    assert many.manifest_path.startswith(f"file:///staging/{ID}/manifest-")
    with pytest.raises(ConfigurationError, match="read it by load_batch"):
        Batch.from_dict(given)


def test_xcom_is_small_however_long_names_are() -> None:
    folder = "file:///" + "é" * 840
    paths = tuple(f"{folder}/{ID}/part-{ID[:-4]}{n:04}.parquet" for n in range(100))
    batch = Batch(**{**MANY, "queue": "é" * 400, "paths": paths, "messages": 100, "parts": 100})
    assert len(json.dumps(batch.to_reference())) < 16_000
    few = Batch(**{**MANY, "queue": "é" * 400, "paths": paths[:1], "parts": 1})
    assert few.is_listed
    assert len(json.dumps(few.to_reference())) < 16_000


def test_the_name_of_a_manifest_file_vouches_for_all_but_the_state() -> None:
    names = {Batch(**{**MANY, name: MANY[name] + 1}).manifest_path for name in ("messages", "expired", "bytes")}
    names |= {Batch(**{**MANY, **each}).manifest_path for each in ({"kept": True}, {"queue": "x"}, {"quarantined": 1})}
    names.add(Batch(**{**MANY, "paths": MANY["paths"][::-1]}).manifest_path)
    assert len(names | {Batch(**MANY).manifest_path}) == 8
    assert Batch(**{**MANY, "state": "consumed"}).manifest_path == Batch(**MANY).manifest_path


def test_the_files_of_a_batch_are_in_one_folder() -> None:
    paths = [f"file:///{folder}/{ID}/part-{ID[:-4]}000{number}.parquet" for number, folder in enumerate("aab")]
    Batch(**{**VALUES, "paths": tuple(paths[:2])}).check_files()
    with pytest.raises(BatchMismatchError, match="A part file"):
        Batch(**{**VALUES, "paths": tuple(paths[1:])}).check_files()


@pytest.mark.parametrize("whole", [Batch(**VALUES), Batch(**MANY), Batch(**{**VALUES, "stage": "table", "paths": ()})])
def test_a_dictionary_that_was_changed_is_not_the_batch(whole: Batch) -> None:
    for given in (whole.to_dict(), whole.to_reference(), {**whole.to_reference(), "state": "requeued"}):
        whole.check_same(given)
    changes = [{"messages": 4}, {"queue": "x"}, {"kept": 1.5}, {"batch_id": "x"}, {"more": 1}, {"manifest": "x"}]
    for change in [*changes, {"paths": ["/etc/passwd"]}]:
        with pytest.raises(BatchMismatchError, match="do not use it"):
            whole.check_same({**whole.to_reference(), **change})


@pytest.mark.parametrize(
    "path",
    [
        None,
        f"file:///staging/{ID}/../manifest-{'0' * 64}.json",
        f"file:///staging/{ID}/../{ID}/manifest-{'0' * 64}.json",
        f"file:///staging/other/manifest-{'0' * 64}.json",
        f"file:///staging/{ID}/manifest-{'0' * 63}.json",
        f"file:///staging/{ID}/manifest-{'0' * 64}.json\n",
        f"file:///staging/{ID}/part-{ID}.parquet",
        f"http://example.org/{ID}/manifest-{'0' * 64}.json",
        f"simplecache::s3a://bucket/{ID}/manifest-{'0' * 64}.json",
        f"{ID}/manifest-{'0' * 64}.json",
    ],
)
def test_xcom_names_no_file_but_a_manifest_in_the_batchs_folder(path: str | None) -> None:
    with pytest.raises(BatchMismatchError, match="is not one that its drain wrote"):
        manifest_of({**Batch(**MANY).to_reference(), "manifest": path})


@pytest.mark.parametrize(("state", "end"), [("open", "can be read"), ("requeued", "read; this one was put back into")])
def test_a_batch_that_cannot_be_read_is_named_with_its_state(state: str, end: str) -> None:
    with pytest.raises(BatchError, match=rf"is {state}: only a sealed or a consumed one .*{end}( its queue)?\.$"):
        check_readable("b", state)
    for readable in ("sealed", "consumed"):
        check_readable("b", readable)
