"""``sqlqueue drain --data-bus``."""

from __future__ import annotations

import shlex
import uuid
from pathlib import Path

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.cli.drain import _drain
from airflow_sqlqueue.drain.erase import EraseRequest
from airflow_sqlqueue.drain.manifest import Batch
from airflow_sqlqueue.drain.request import DrainRequest
from airflow_sqlqueue.drain.storage.folder import StagingFolder
from airflow_sqlqueue.endpoint.databus.payload_file import PayloadsResult
from airflow_sqlqueue.messages.message import HeaderNames, Message
from tests.cli.runner import answer, sqlqueue
from tests.payloads import KEY, names, new_key, put


@pytest.fixture
def name(url: str) -> str:
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    return name


def test_a_drain_fetches_the_payloads_of_its_batch(url: str, name: str, tmp_path: Path) -> None:
    share, client = tmp_path / "share", QueueClient.from_url(url)
    keys = [put(share, new_key(), b"x" * size) for size in (100, 1025, 900)]
    client.queue(name).send(Message(names(Picture=key)) for key in (*keys, KEY))
    options = ["--data-bus", str(share), "--payload-bytes", "1KiB", "--max-payload-bytes", "900"]
    done = answer("drain", name, "--staging", str(tmp_path / "staging"), *options, url=url)
    payloads = done["payloads"]
    assert {name: payloads[name] for name in ("fetched", "bytes", "gone", "too_large", "over_limit")} == {
        "fetched": 1, "bytes": 100, "gone": 1, "too_large": 1, "over_limit": 1
    }  # fmt: skip
    batch = client.batches.get(uuid.UUID(done["batch_id"]))
    assert len(list(client.batches.payloads(batch))) == 4


def test_a_drain_whose_data_bus_was_away_is_resumed(url: str, name: str, tmp_path: Path) -> None:
    share = tmp_path / "share"
    QueueClient.from_url(url).queue(name).send([Message(names(Picture=KEY))])
    command = ["drain", name, "--staging", str(tmp_path / "staging"), "--data-bus", str(share), "--json"]
    failed = sqlqueue(*command, url=url)
    assert failed.returncode != 0
    assert "check the location, and that its share is mounted" in failed.stderr
    _, _, shown = failed.stderr.replace("\n", " ").partition("Fetch them with: sqlqueue ")
    put(share, KEY, b"1")
    done = answer(*shlex.split(shown.partition(" Error:")[0]), url=url)
    assert (done["messages"], done["payloads"]["fetched"]) == (1, 1)


def test_an_erasure_leaves_a_batch_whose_payloads_are_being_fetched(url: str, name: str, tmp_path: Path) -> None:
    """Payloads that come after it would stay."""
    client, skipped = QueueClient.from_url(url), []
    client.queue(name).send([Message({**names(Picture=KEY), HeaderNames.MESSAGE_ID: name})])

    def fetch(client: QueueClient, batch: Batch) -> PayloadsResult:
        done = client.batches.erase(EraseRequest(message_ids=[name], batch_ids=[batch.uuid]))
        skipped.append(done.skipped == {batch.uuid: "a task works on it"})
        return PayloadsResult(batch.batch_id)

    _drain(client, name, StagingFolder.of(tmp_path), "files", DrainRequest(), None, [], fetch, quiet=True)
    assert skipped == [True]


def test_an_empty_queue_has_no_payloads(url: str, name: str, tmp_path: Path) -> None:
    done = answer("drain", name, "--staging", str(tmp_path), "--data-bus", str(tmp_path), url=url)
    assert done["batch_id"] is None
    assert "payloads" not in done


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--stage", "table"), "--data-bus stages payloads beside files"),
        (("--staging", "s", "--payload-bytes", "much"), "--payload-bytes takes bytes"),
        (("--staging", "s", "--payload-bytes", "2GiB"), "--payload-bytes must be 1 to"),
    ],
)
def test_unusable_options_are_refused(url: str, name: str, tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    done = sqlqueue("drain", name, "--data-bus", str(tmp_path), *options, url=url)
    assert done.returncode == 2
    assert says in done.stderr
