"""Commands on schemas: propose, compare, check."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.client.schemas.files import SchemaFolder
from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.messages.message import Message
from tests.cli.runner import answer, one_sentence, sqlqueue

ORDER = "Shop.Sales.Contracts.PlaceOrder"


@pytest.fixture
def name(url: str) -> str:
    queue = f"cli.{uuid.uuid4().hex[:10]}"
    answer("create", queue, url=url)
    return queue


def send(url: str, queue: str, *bodies: str) -> None:
    headers = {"NServiceBus.EnclosedMessageTypes": f"{ORDER}, Shop", "NServiceBus.ContentType": "application/json"}
    QueueClient.from_url(url).queue(queue).send([Message(headers, body.encode()) for body in bodies])


@pytest.fixture
def batch(url: str, name: str, tmp_path: Path) -> Any:
    send(url, name, '{"OrderId":"a","Total":1.50}', '{"OrderId":"b","Total":2,"Express":true}')
    return answer("drain", name, "--staging", str(tmp_path / "staging"), url=url)["batch_id"]


def test_schemas_are_proposed_compared_and_checked(url: str, name: str, batch: str, tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    arguments = (str(folder), "--batch", batch, "--queue", name)
    proposed = [
        {"message_type": ORDER, "field": "OrderId", "old": None, "found": "string"},
        {"message_type": ORDER, "field": "Total", "old": None, "found": "decimal(38,9)"},
        {"message_type": ORDER, "field": "Express", "old": None, "found": "boolean"},
    ]
    assert answer("schemas", "infer", *arguments, "--dry-run", url=url) == proposed
    assert not folder.exists()
    assert answer("schemas", "infer", *arguments, url=url) == proposed
    written = json.loads((folder / f"{ORDER}.json").read_text())
    assert [each["name"] for each in written["fields"]] == ["OrderId", "Total", "Express"]
    assert answer("schemas", "diff", *arguments, url=url) == []
    assert sqlqueue("schemas", "check", *arguments, url=url).returncode == 0

    send(url, name, '{"OrderId":7,"Total":"much","Note":"new"}')
    later = answer("drain", name, "--staging", str(tmp_path / "staging"), url=url)["batch_id"]
    arguments = (str(folder), "--batch", later, "--queue", name)
    changes = [
        {"message_type": ORDER, "field": "Total", "old": "decimal(38,9)", "found": "string", "misfits": 1},
        {"message_type": ORDER, "field": "Note", "old": None, "found": "string", "misfits": 0},
    ]
    assert answer("schemas", "diff", *arguments, url=url) == changes
    checked = sqlqueue("schemas", "check", *arguments, url=url, COLUMNS="80")
    assert checked.returncode == 1
    assert f"{ORDER}: 1 message, RowVersions" in checked.stderr
    assert "much" not in checked.stdout + checked.stderr
    answer("schemas", "infer", *arguments, url=url)
    written = json.loads((folder / f"{ORDER}.json").read_text())
    assert {each["name"]: each["type"] for each in written["fields"]} == {
        "OrderId": "string",
        "Total": "decimal(38,9)",
        "Express": "boolean",
        "Note": "string",
    }


def test_values_of_few_messages_that_do_not_fit_are_shown(url: str, name: str, tmp_path: Path) -> None:
    """Those that change no type: the table would have them in its rescued values."""
    folder, staging = tmp_path / "schemas", str(tmp_path / "staging")
    good = '{"Id":1,"Paid":"2026-01-02","Lines":[{"Qty":1}],"By":{"Name":"x"}}'
    send(url, name, *[good] * 5)
    batch = answer("drain", name, "--staging", staging, url=url)["batch_id"]
    answer("schemas", "infer", str(folder), "--batch", batch, "--queue", name, url=url)
    bad = '{"Id":"C-1","Paid":"soon","Lines":[{"Qty":"a"},{"Qty":{"a":1}}],"By":"x","paid":"never"}'
    send(url, name, *[good] * 20, bad, bad.replace('"C-1"', "1.5"))
    batch = answer("drain", name, "--staging", staging, url=url)["batch_id"]
    arguments = (str(folder), "--batch", batch, "--queue", name)
    found = answer("schemas", "diff", *arguments, url=url)
    assert {each["field"]: (each["old"], each["found"], each["misfits"]) for each in found} == {
        "By": ("struct<Name: string>", "string", 2),
        "Id": ("long", "decimal(38,9)", 2),
        "Lines[].Qty": ("long", "string or struct", 2),
        "Paid": ("date", "string", 2),
    }
    assert sqlqueue("schemas", "check", *arguments, url=url).returncode == 1
    assert answer("schemas", "infer", *arguments, url=url) == []
    done = sqlqueue("schemas", "infer", *arguments, url=url)
    assert "; 4 fields with values that do not fit." in done.stderr
    assert "soon" not in done.stdout + done.stderr


def test_a_folder_with_a_broken_schema_is_named(url: str, name: str, batch: str, tmp_path: Path) -> None:
    (tmp_path / f"{ORDER}.json").write_text("{")
    shown = sqlqueue("schemas", "diff", str(tmp_path), "--batch", batch, "--queue", name, url=url)
    assert (shown.returncode, f"{ORDER}.json is not JSON" in shown.stderr) == (2, True)


def test_a_message_type_of_any_characters_is_printed_with_escapes(url: str, name: str, tmp_path: Path) -> None:
    shop = "Shop\x1b[31m.A\u202eB"
    headers = {"NServiceBus.EnclosedMessageTypes": shop, "NServiceBus.ContentType": "application/json"}
    QueueClient.from_url(url).queue(name).send([Message(headers, b'{"Id":1}'), Message({}, b"{}")])
    batch = answer("drain", name, "--staging", str(tmp_path / "staging"), url=url)["batch_id"]
    shown = sqlqueue("schemas", "diff", str(tmp_path / "schemas"), "--batch", batch, "--queue", name, url=url)
    assert r"Shop\x1b[31m.A\u202eB: 1 message, RowVersions" in shown.stderr
    assert "Without a type, or of one of too many types: 1 message." in shown.stderr
    assert "\x1b" not in shown.stdout + shown.stderr


def test_an_unusable_schema_leaves_the_others(url: str, name: str, tmp_path: Path) -> None:
    queue = QueueClient.from_url(url).queue(name)
    for kind in ("Shop.Bad", "Shop.Odd", "Shop.Good", "Audit.Seen"):
        headers = {"NServiceBus.EnclosedMessageTypes": f"{kind}, Shop", "NServiceBus.ContentType": "application/json"}
        queue.send([Message(headers, b'{"Id":1,"Address":{"Zip":1234},"Odd":1e9999999999999999999}')])
    batch = answer("drain", name, "--staging", str(tmp_path / "staging"), url=url)["batch_id"]
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "Shop.Bad.json").write_text("{")
    (folder / "Shop.Odd.json.new").mkdir()
    (folder / "_hints.json").write_text('{"Shop.*": {"**.Zip": "string", "**.Zap": "string"}}')
    arguments = (str(folder), "--batch", batch, "--queue", name, "--types", "!Audit.*")
    for command, code in (("diff", 2), ("check", 2), ("infer", 2)):
        shown = sqlqueue("schemas", command, *arguments, url=url)
        assert shown.returncode == code
        assert "Shop.Bad.json is not JSON" in shown.stderr
        assert "The hint for '**.Zap' matches no field" in shown.stderr
    assert "The schema of Shop.Odd cannot be written" in shown.stderr
    assert (folder / "Shop.Bad.json").read_text() == "{"
    assert {each.name for each in folder.glob("*.json")} == {"Shop.Bad.json", "Shop.Good.json", "_hints.json"}
    fields = json.loads((folder / "Shop.Good.json").read_text())["fields"]
    assert fields[1]["type"]["fields"][0]["type"] == "string"
    (folder / "Shop.Bad.json").unlink()
    assert answer("schemas", "diff", *arguments, "--types", "Shop.Good", url=url) == []
    (folder / "_hints.json").write_text('{"Shop.*": {"**.Zip": "texts"}}')
    shown = sqlqueue("schemas", "diff", *arguments, url=url)
    assert (shown.returncode, "The hint for '**.Zip'" in shown.stderr) == (2, True)


@pytest.mark.parametrize("setting", ["spark.driver.memory", "spark.driver.memory=", "=4g"])
def test_a_rewrite_names_its_settings_and_a_schema(setting: str, tmp_path: Path) -> None:
    arguments = ("tables", "rewrite", ORDER, "--location", str(tmp_path / "lake"))
    found = sqlqueue(*arguments, "--conf", setting)
    assert (found.returncode, found.stderr) == (2, "Error: --conf takes NAME=VALUE, as spark.driver.memory=4g.\n")


def test_a_rewrite_starts_no_spark_for_an_unknown_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_sqlqueue.spark.session.local_session", None)
    found = sqlqueue("tables", "rewrite", ORDER, "--location", str(tmp_path / "lake"), "--format", "nope")
    assert (found.returncode, found.stdout) == (2, "")
    assert "The format of the tables is 'nope': it is one of parquet, delta, iceberg." in found.stderr


def test_a_schema_that_cannot_be_written_is_not_shown_as_written(
    url: str, name: str, batch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: SchemaFolder, name: str, schema: object) -> None:
        raise StagingError(f"The schema of {name} cannot be written: the disk is full.")

    monkeypatch.setattr(SchemaFolder, "extend", refuse)
    refused = sqlqueue("schemas", "infer", str(tmp_path / "schemas"), "--batch", batch, "--queue", name, url=url)
    assert (refused.returncode, "Total" in refused.stdout) == (2, False)
    assert "the disk is full" in refused.stderr


def test_the_schemas_of_an_asyncapi_document_are_added(tmp_path: Path) -> None:
    payload = {"type": "object", "properties": {"Number": {"type": "integer"}}}
    messages = {"Shop.OrderPlaced": {"payload": payload}, "Shop.Other": {"payload": payload}, "Shop.Bad": {}}
    document = tmp_path / "shop.json"
    document.write_text(json.dumps({"asyncapi": "3.0.0", "components": {"messages": messages}}), "utf-8")
    folder = tmp_path / "schemas"
    done = sqlqueue("schemas", "add", str(folder), str(document), "--types", "!Shop.Other", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["items"] == [{"message_type": "Shop.OrderPlaced", "fields": 1}]
    assert "'Shop.Bad': The message has no payload" in done.stderr
    assert [path.name for path in folder.glob("*.json")] == ["Shop.OrderPlaced.json"]
    payload["properties"] = {"Number": {"type": "string"}, "Note": {"type": "string"}}
    document.write_text(
        json.dumps({"asyncapi": "3.0.0", "components": {"messages": {"Shop.OrderPlaced": {"payload": payload}}}})
    )
    done = sqlqueue("schemas", "add", str(folder), str(document), "--json")
    assert json.loads(done.stdout)["items"] == [{"message_type": "Shop.OrderPlaced", "fields": 2}]
    assert '"Number", "type": "long"' in (folder / "Shop.OrderPlaced.json").read_text("utf-8")
    document.write_text("asyncapi: 3.0.0", "utf-8")
    assert "is not JSON" in one_sentence(sqlqueue("schemas", "add", str(folder), str(document)), 2)
