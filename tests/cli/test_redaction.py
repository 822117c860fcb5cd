"""The commands on private data: a drain with rules, a preview of rules, and an erasure."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_sqlqueue.queue.browsing import find
from tests.cli.runner import answer, one_sentence, sqlqueue

KEY = {"SQLQUEUE_REDACTION_KEY": "a key of 16 bytes or more"}
TYPE = "Shop.PlaceOrder"


@pytest.fixture
def queue(url: str) -> str:
    """A queue with two orders, of Ada and of Bob, and a message of another type."""
    name = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", name, url=url)
    for person in ("ada", "bob"):
        body = json.dumps({"Id": 1, "Customer": {"Email": f"{person}@hush"}})
        sent = ("--type", f"{TYPE}, Shop", "--body", body, "--header", f"Person={person}-hush")
        answer("send", name, *sent, url=url)
    answer("send", name, "--type", "Shop.Other", "--body", "{}", url=url)
    return name


@pytest.fixture
def rules(tmp_path: Path) -> str:
    file = tmp_path / "rules.json"
    fields = {"Customer.Email": "hash", "Customer.Emial": "mask"}
    file.write_text(json.dumps([{"message_type": TYPE, "headers": {"Person": "drop"}, "fields": fields}]))
    return str(file)


def test_a_preview_shows_what_rules_change_without_values(url: str, queue: str, rules: str) -> None:
    shown = answer("redact", queue, "--dry-run", "--rules", rules, url=url)
    changes = [(each["headers"], each["fields"], each["body"]) for each in shown]
    order = ({"Person": "drop"}, {"Customer.Email": "hash"}, None)
    assert changes == [order, order, ({}, {}, None)]
    text = sqlqueue("redact", queue, "--dry-run", "--rules", rules, url=url)
    assert "No message has a field at Customer.Emial" in text.stderr
    assert "hush" not in text.stdout + text.stderr
    only = answer("redact", queue, "--dry-run", "--rules", rules, "--message-type", "Shop.Other", url=url)
    assert [each["row_version"] for each in only] == [shown[2]["row_version"]]


def test_a_preview_looks_for_its_messages_in_the_whole_queue(
    url: str, queue: str, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(find.__kwdefaults__ or {}, "window", 2)
    (found,) = answer("redact", queue, "--dry-run", "--rules", rules, "--message-type", "Shop.Other", url=url)
    assert found["row_version"] == 3


def test_a_preview_names_values_in_place_of_an_object(url: str, queue: str, rules: str) -> None:
    for customer in ('"{\\"Email\\":\\"hush\\"}"', "4711"):
        answer("send", queue, "--type", TYPE, "--body", f'{{"Customer":{customer}}}', url=url)
    found = answer("redact", queue, "--dry-run", "--rules", rules, url=url)[-2:]
    fields = {"Customer.Email": "hash, on a value in place of the object"}
    fields["Customer.Emial"] = fields["Customer.Email"].replace("hash", "mask")
    assert [each["fields"] for each in found] == [fields] * 2
    assert "hush" not in str(found)


def test_a_queue_itself_is_not_redacted(url: str, queue: str, rules: str) -> None:
    assert "give --dry-run" in one_sentence(sqlqueue("redact", queue, "--rules", rules, url=url), 2)


@pytest.mark.parametrize("wrong", [[{"types": ["*"]}], ["*"]])
def test_a_mistake_in_rules_names_the_members_of_a_rule(url: str, queue: str, rules: str, wrong: object) -> None:
    Path(rules).write_text(json.dumps(wrong))
    reason = one_sentence(sqlqueue("redact", queue, "--dry-run", "--rules", rules, url=url), 2)
    assert "'message_type'" in reason
    assert "--message-type" not in reason


def test_a_drain_applies_rules_with_the_key_of_the_environment(
    url: str, queue: str, rules: str, tmp_path: Path
) -> None:
    command = ("drain", queue, "--staging", str(tmp_path / "staging"), "--redaction", rules)
    assert "SQLQUEUE_REDACTION_KEY" in one_sentence(sqlqueue(*command, url=url), 2)
    done = sqlqueue(*command, "--json", url=url, **KEY)
    assert done.returncode == 0, done.stderr
    batch = json.loads(done.stdout)
    assert len(batch["redacted"]) == 64
    rows = [row for path in batch["paths"] for row in pq.read_table(path.removeprefix("file://")).to_pylist()]
    assert "hush" not in str(rows)
    refused = sqlqueue("requeue", batch["batch_id"], "--queue", queue, url=url)
    assert "--accept-redacted" in one_sentence(refused, 1)
    named = ("--queue", queue, "--batch", batch["batch_id"])
    erased = sqlqueue("erase", *named, "--field", "Customer.Email=ada@hush", "--json", url=url, **KEY)
    assert (json.loads(erased.stdout)["messages"], erased.stderr) == (1, "")
    back = answer("requeue", batch["batch_id"], "--queue", queue, "--accept-redacted", url=url)
    assert (back["messages"], back["erased"], back["state"]) == (2, 1, "requeued")


def test_an_erasure_that_skips_a_batch_is_no_success(url: str, queue: str, tmp_path: Path) -> None:
    batch = answer("drain", queue, "--staging", str(tmp_path / "staging"), url=url)
    Path(batch["paths"][0].removeprefix("file://")).with_name("payloads.json").write_text("{}")
    erase = ("erase", "--queue", queue, "--batch", batch["batch_id"], "--header", "Person=bob-hush", "--json")
    done = sqlqueue(*erase, url=url)
    assert (done.returncode, [*json.loads(done.stdout)["skipped"]]) == (1, [batch["batch_id"]])
    assert sqlqueue(*erase, "--dry-run", url=url).returncode == 0


def test_messages_are_erased_or_counted(url: str, queue: str, tmp_path: Path) -> None:
    batch = answer("drain", queue, "--staging", str(tmp_path / "staging"), url=url)
    named = ("erase", "--queue", queue, "--batch", batch["batch_id"])
    assert answer(*named, "--header", "Person=bob-hush", "--dry-run", url=url)["messages"] == 1
    done = answer(*named, "--header", "Person=bob-hush", url=url)
    assert (done["messages"], done["batches"], done["files"]) == (1, [batch["batch_id"]], 1)
    assert answer(*named, "--field", "Customer.Email=ada@hush", url=url)["messages"] == 1
    assert "Name the messages to erase: --message-id, headers" in one_sentence(sqlqueue(*named, url=url), 2)
    wrong = one_sentence(sqlqueue(*named, "--field", "=hush", url=url), 2)
    assert "PATH=VALUE" in wrong
    assert "hush" not in wrong
