"""The commands on batches, as processes."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.server.session import Session
from airflow_sqlqueue.server.settings import ConnectionSettings
from airflow_sqlqueue.server.sql import Query
from airflow_sqlqueue.spark.source.claims import Claims, StreamOptions
from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions
from tests.cli.runner import answer, one_sentence, process, sqlqueue


@pytest.fixture
def drained(url: str, tmp_path: Path) -> tuple[str, Any]:
    """A queue's name, and the batch that its 50 messages are in."""
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    answer("generate", name, "--count", "50", "--seed", "3", url=url)
    return name, answer("drain", name, "--staging", str(tmp_path / "staging"), url=url)


def test_batches_are_listed(url: str, drained: tuple[str, Any]) -> None:
    name, batch = drained
    (info,) = answer("batches", "--queue", name, "--state", "sealed", "--state", "open", url=url)
    assert (info["batch_id"], info["state"], info["queue"]) == (batch["batch_id"], "sealed", batch["queue"])
    assert (info["messages"], info["bytes"], info["origin"]) == (batch["messages"], batch["bytes"], "sqlqueue drain")
    assert 0 <= info["age_seconds"] < 3600
    assert batch["batch_id"] in {info["batch_id"] for info in answer("batches", url=url)}
    assert answer("batches", "--queue", name, "--older-than", "1h", url=url) == []
    shown = sqlqueue("batches", "--queue", name, url=url)
    assert batch["batch_id"] in shown.stdout
    assert "\nage  " in shown.stdout or " age " in shown.stdout


def test_unknown_states_and_ages_are_refused(url: str) -> None:
    for option, value, sentence in (
        ("--state", "done", "choose one of"),
        ("--older-than", "soon", "--older-than is 'soon': give a number of seconds, or a time as 90s"),
    ):
        done = sqlqueue("batches", option, value, url=url)
        assert done.returncode == 2
        assert sentence in done.stderr


def test_a_batch_is_put_back(url: str, drained: tuple[str, Any]) -> None:
    name, batch = drained
    done = answer("requeue", batch["batch_id"], "--queue", name, url=url)
    assert (done["batch_id"], done["state"], done["repeated"]) == (batch["batch_id"], "requeued", False)
    assert answer("requeue", batch["batch_id"], url=url)["repeated"] is True
    depth = answer("depth", name, url=url)
    assert depth["messages"] + depth["expired"] == batch["messages"]
    unknown = sqlqueue("requeue", str(uuid.uuid4()), url=url)
    assert unknown.returncode == 1
    assert "does not know batch" in unknown.stderr
    assert "name the queue of a batch in another database" in unknown.stderr


def test_a_batch_whose_file_is_lost_has_an_end(url: str, drained: tuple[str, Any], tmp_path: Path) -> None:
    name, batch = drained
    batch_id = batch["batch_id"]
    shown = answer("batches", batch_id[:8].upper(), url=url)
    assert (shown["batch_id"], shown["state"], shown["paths"]) == (batch_id, "sealed", batch["paths"])
    assert f"folder       {batch['paths'][0].rpartition('/')[0]}" in sqlqueue("batches", batch_id, url=url).stdout
    (lost,) = (Path(path.removeprefix("file://")) for path in batch["paths"])
    lost.unlink()
    for refused in ("requeue", "abandon"):
        assert sqlqueue(refused, batch_id, url=url).returncode == 1
    assert answer("mark-consumed", batch_id, url=url)["state"] == "consumed"
    assert answer("mark-consumed", batch_id, "--queue", name, url=url)["state"] == "consumed"
    assert answer("batches", batch_id, url=url)["state"] == "consumed"
    assert answer("sweep", str(tmp_path / "staging"), "--queue", name, "--retain", "0s", url=url)["batches"] >= 1
    assert "does not know batch" in one_sentence(sqlqueue("batches", batch_id, url=url), 1)
    assert "No id of a batch begins with" in one_sentence(sqlqueue("batches", batch_id[:9], url=url), 1)


def test_only_a_sealed_batch_is_marked_consumed(url: str, drained: tuple[str, Any]) -> None:
    _, batch = drained
    answer("requeue", batch["batch_id"], url=url)
    assert "it was put back" in one_sentence(sqlqueue("mark-consumed", batch["batch_id"], url=url), 1)
    assert "does not know batch" in one_sentence(sqlqueue("mark-consumed", str(uuid.uuid4()), url=url), 1)


def test_a_folder_given_by_a_step_up_is_the_one_that_readers_use(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, inside = f"cli.{uuid.uuid4().hex[:10]}", tmp_path / "inside"
    answer("create", name, url=url)
    inside.mkdir()
    monkeypatch.chdir(inside)
    for staging in ("../staging", f"file://{inside}/../staging"):
        answer("generate", name, "--count", "20", "--seed", "3", url=url)
        batch = answer("drain", name, "--staging", staging, url=url)
        (folder,) = {path.rpartition("/")[0] for path in batch["paths"]}
        assert folder.startswith(f"file://{tmp_path}/staging/{batch['batch_id']}-")
        batches = QueueClient.from_url(url).batches
        read = list(batches.messages(batches.get(uuid.UUID(batch["batch_id"]), name)))
        assert len(read) == batch["messages"] > 0
        assert answer("requeue", batch["batch_id"], url=url)["messages"] == batch["messages"]


def test_a_folder_that_no_reader_accepts_is_refused_before_the_drain(url: str) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    answer("generate", name, "--count", "20", "--seed", "3", url=url)
    before = answer("depth", name, url=url)["messages"]
    refused = sqlqueue("drain", name, "--staging", "memory://bucket/a/../b", url=url)
    assert (refused.returncode, "choose another" in refused.stderr) == (2, True)
    assert answer("depth", name, url=url)["messages"] == before > 0
    assert answer("batches", "--queue", name, url=url) == []


def test_a_batch_in_a_table(url: str) -> None:
    """Drained, listed, put back and swept without a folder."""
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    answer("generate", name, "--count", "20", "--seed", "3", url=url)
    batch = answer("drain", name, "--stage", "table", url=url)
    assert (batch["state"], batch["stage"], batch["paths"]) == ("sealed", "table", [])
    (info,) = answer("batches", "--queue", name, url=url)
    assert (info["stage"], info["messages"]) == ("table", batch["messages"])
    assert "table" in sqlqueue("batches", "--queue", name, url=url).stdout
    assert answer("requeue", batch["batch_id"], url=url)["state"] == "requeued"
    would = answer("sweep", "--retain", "0s", "--dry-run", url=url)
    assert would["rows"] >= batch["messages"]
    for wrong in (["--stage", "table", "--staging", "/tmp"], ["--stage", "files"], []):
        done = sqlqueue("drain", name, *wrong, url=url)
        assert done.returncode == 2
        assert "staging folder" in done.stderr


def test_a_staging_folder_is_swept(url: str, drained: tuple[str, Any], tmp_path: Path) -> None:
    name, batch = drained
    staging = str(tmp_path / "staging")
    orphan = Path(batch["paths"][0].removeprefix("file://")).with_name(f"part-{uuid.uuid4()}.parquet")
    orphan.write_bytes(b"x")
    assert answer("sweep", staging, "--queue", name, url=url)["files"] == 0, "it may be a part that is being written"
    would = answer("sweep", staging, "--grace", "0s", "--dry-run", url=url)
    assert (would["files"], would["bytes"], would["orphans"], would["dry_run"]) == (1, 1, 1, True)
    assert orphan.exists()
    assert answer("sweep", staging, "--grace", "0s", "--forget-sent", "365d", url=url)["files"] == 1
    assert not orphan.exists()
    assert all(Path(path.removeprefix("file://")).exists() for path in batch["paths"])
    wrong = sqlqueue("sweep", staging, "--retain", "-1d", url=url)
    assert wrong.returncode == 2
    assert "--retain is" in wrong.stderr


def test_quarantined_messages_are_listed_and_put_back(url: str, drained: tuple[str, Any], tmp_path: Path) -> None:
    name, _ = drained
    with Session(ConnectionSettings.from_url(url)) as session:
        text = f"INSERT INTO [{name}] ([Id], [Recoverable], [Headers], [Body]) VALUES (NEWID(), 1, NCHAR(0xD83D), 0x01)"
        session.run(Query("poison", "send a poison message", text))
    batch = answer("drain", name, "--staging", str(tmp_path), "--until-empty", "--max-seconds", "60", url=url)
    assert (batch["messages"], batch["quarantined"]) == (0, 1)
    (aside,) = answer("quarantine", name, url=url)
    assert (aside["batch_id"], aside["body_bytes"]) == (batch["batch_id"], 1)
    assert "half a surrogate pair" in sqlqueue("quarantine", name, url=url).stdout
    number = str(aside["number"])
    assert answer("quarantine", name, *("--requeue", number) * 2, url=url) == {"requeued": 1}
    assert answer("depth", name, url=url)["messages"] == 1
    assert answer("quarantine", name, url=url) == []
    gone = sqlqueue("quarantine", name, "--requeue", number, url=url)
    assert gone.returncode == 1
    assert f"No message {number} of" in gone.stderr


def test_a_stream_is_listed_and_released(url: str) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    answer("generate", name, "--count", "5", "--seed", "3", url=url)
    options = StreamOptions(name, f"lake {name}", 5, 2, keep_expired=True)
    claims = Claims(ServerAccess.of(SourceOptions({}), ConnectionSettings.from_url(url)), options)
    claims.claim(claims.begin(), 5)
    claims.close()
    (listed,) = answer("streams", "--queue", name, url=url)
    assert (listed["name"], listed["messages"], listed["reading"]) == (options.stream, 5, False)
    assert "accept duplicates" in one_sentence(sqlqueue("streams", "--release", options.stream, url=url), 1)
    released = answer("streams", "--release", options.stream, "--accept-duplicates", url=url)
    assert released == {"name": options.stream, "queue": listed["queue"], "claims": 1, "messages": 5}
    assert answer("depth", name, url=url)["messages"] == 5
    again = sqlqueue("streams", "--release", options.stream, url=url)
    assert again.returncode == 2
    assert "'sqlqueue streams' lists them" in " ".join(again.stderr.split())


def test_a_drain_that_finds_nothing_leaves_no_batch(url: str, tmp_path: Path) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    staging = ("--staging", str(tmp_path / "staging"))
    done = sqlqueue("drain", name, *staging, url=url)
    assert done.returncode == 0
    assert done.stderr == f"Nothing was drained from {name}@[dbo]@[sqlqueue], so no batch is left.\n"
    for stage in (staging, ("--stage", "table")):
        nothing = json.loads(sqlqueue("drain", name, *stage, "--json", url=url).stdout)
        assert (nothing["batch_id"], nothing["state"], nothing["messages"]) == (None, None, 0)
    answer("generate", name, "--count", "10", url=url)
    filtered = sqlqueue("drain", name, *staging, "--message-type", "No.Such", "--json", url=url)
    assert (filtered.returncode, json.loads(filtered.stdout)["batch_id"]) == (0, None)
    assert answer("batches", "--queue", name, url=url) == []
    depth = answer("depth", name, url=url)
    assert depth["messages"] + depth["expired"] == 10


def test_an_empty_batch_that_was_named_stays_and_can_be_put_back(url: str, tmp_path: Path) -> None:
    """An id that somebody names is one that he comes back for."""
    name, batch_id = f"cli.{uuid.uuid4().hex[:10]}", str(uuid.uuid4())
    answer("create", name, url=url)
    drain = ("drain", name, "--staging", str(tmp_path), "--batch-id", batch_id)
    batch = json.loads(sqlqueue(*drain, "--new", "--json", url=url).stdout)
    assert (batch["batch_id"], batch["state"], batch["messages"]) == (batch_id, "sealed", 0)
    refused = sqlqueue("abandon", batch_id, url=url)
    assert refused.returncode == 1
    assert "put it back with 'sqlqueue requeue " in refused.stderr
    assert answer("requeue", batch_id, url=url)["state"] == "requeued"


def test_an_empty_drain_to_a_store_that_cannot_be_reached_is_no_success(url: str) -> None:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    nobody = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    done = process("drain", name, "--staging", "s3://bucket/x", url=url, AWS_MAX_ATTEMPTS="1", **nobody)
    assert done.returncode == 1
    assert "Error: The staging folder s3a://bucket/x cannot be reached: " in done.stderr
    assert answer("batches", "--queue", name, url=url) == []


def test_a_list_of_batches_has_no_empty_column(url: str, drained: tuple[str, Any]) -> None:
    name, batch = drained
    with Session(ConnectionSettings.from_url(url)) as session:
        text = "UPDATE [sqlqueue].[Batch] SET [Origin] = 'dag run task -1' WHERE [BatchId] = ?"
        session.run(Query("origin", "set the origin", text), batch["batch_id"])
    (line,) = _columns(sqlqueue("batches", "--queue", name, url=url).stdout)
    assert line["origin"] == "dag run task"
    assert ("expired" in line) is (batch["expired"] > 0)
    assert not line.keys() & {"quarantined", "kept"}
    (info,) = answer("batches", "--queue", name, url=url)
    assert (info["origin"], info["kept"]) == ("dag run task -1", False)


def test_a_dry_run_of_a_sweep_says_that_nothing_was_removed(url: str, drained: tuple[str, Any], tmp_path: Path) -> None:
    staging = str(tmp_path / "staging")
    part = Path(drained[1]["paths"][0].removeprefix("file://"))
    part.with_name(f"part-{uuid.uuid4()}.parquet").write_bytes(b"x")
    for option, title in (("--dry-run", "Would be removed; nothing was yet"), ("--grace=0s", "Removed")):
        shown = sqlqueue("sweep", staging, "--grace", "0s", option, url=url).stdout.splitlines()
        assert shown[0] == title
        assert shown[1].split() == ["files", "1"]


def _columns(table: str) -> list[dict[str, str]]:
    """The rows of a table as the terminal has it, by its heads."""
    rows = [[cell.strip() for cell in re.split("[┃│]", line)[1:-1]] for line in table.splitlines()]
    heads, *lines = [row for row in rows if row]
    return [dict(zip(heads, line, strict=True)) for line in lines]
