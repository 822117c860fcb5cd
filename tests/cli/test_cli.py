"""The command line as a person or a script meets it: a process, its output and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from airflow_sqlqueue import Message, QueueClient
from tests.cli.runner import answer, one_sentence, sqlqueue


@pytest.fixture
def name() -> str:
    return f"cli.{uuid.uuid4().hex[:10]}"


def test_several_queues_are_created_at_once(url: str, name: str) -> None:
    answer("create", name, url=url)
    both = answer("create", name, f"{name}.too", "--ledger", url=url)
    assert [(each["table"].partition("@")[0], each["created"]) for each in both if "dbo" in each["table"]] == [
        (name, False),
        (f"{name}.too", True),
    ]
    assert len({each["table"] for each in both}) == len(both) > 2
    script = sqlqueue("create", name, f"{name}.too", "--ddl", url=url).stdout
    assert script.count("CREATE TABLE") == 2


def test_every_command_in_turn(url: str, name: str, tmp_path: Path) -> None:
    address = f"{name}@[dbo]@[sqlqueue]"
    assert answer("create", name, url=url) == [{"table": address, "created": True, "differences": []}]
    assert answer("create", name, url=url) == [{"table": address, "created": False, "differences": []}]
    body = tmp_path / "body.json"
    body.write_text('{"order": 1}')
    sent = answer("send", name, "--type", "Shop.PlaceOrder", "--body", f"@{body}", "--header", "a=b=c", url=url)
    assert answer("send", name, "--type", "Shop.Late", "--expire-after", "0.001", url=url)["message_id"]
    assert answer("depth", name, url=url)["messages"] == 1
    first, _ = answer("peek", name, "--headers", "--body", url=url)
    assert (first["message_id"], first["type"], first["body"]) == (
        sent["message_id"],
        "Shop.PlaceOrder",
        '{"order": 1}',
    )
    assert first["headers"]["a"] == "b=c"
    assert datetime.fromisoformat(first["time_sent"]).utcoffset() == timedelta(0)
    assert answer("purge", name, "--dry-run", url=url)["remaining"] == 1
    assert answer("purge", name, url=url)["deleted"] == 1
    assert answer("generate", name, "--count", "50", "--seed", "3", url=url)["sent"] == 50
    batch = answer("drain", name, "--staging", str(tmp_path / "staging"), url=url)
    assert batch["messages"] + batch["expired"] == 51
    assert all(Path(path.removeprefix("file://")).exists() for path in batch["paths"])
    again = ["drain", name, "--staging", str(tmp_path / "staging"), "--batch-id", batch["batch_id"]]
    assert answer(*again, url=url)["paths"] == batch["paths"]
    for_people = sqlqueue(*again, url=url).stdout
    assert batch["paths"][0].rpartition("/")[0] in for_people
    assert ".parquet" not in for_people
    assert answer("depth", name, url=url)["messages"] == 0


def test_a_body_from_standard_input(url: str, name: str) -> None:
    answer("create", name, url=url)
    command = [sys.executable, "-m", "airflow_sqlqueue", "send", name, "--type", "T", "--body", "-", "--url", url]
    subprocess.run(command, input=b"\x00\xff", check=True, capture_output=True, timeout=120)
    (shown,) = answer("peek", name, "--body", url=url)
    assert (shown["body_bytes"], shown["body"]) == (2, "\0\ufffd")


def test_an_airflow_connection_serves_as_well(url: str, name: str) -> None:
    pytest.importorskip("airflow", reason="Airflow is not installed")
    parts = urlsplit(url)
    connection = {
        "conn_type": "sqlqueue",
        "host": parts.hostname,
        "port": parts.port,
        "login": parts.username,
        "password": parts.password,
        "schema": parts.path.lstrip("/"),
        "extra": {"trust_server_certificate": True},
    }
    done = sqlqueue("create", name, "--conn-id", "mine", "--json", AIRFLOW_CONN_MINE=json.dumps(connection))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["items"][0]["created"] is True


def test_an_endpoints_tables(url: str, name: str) -> None:
    tables = answer("create", name, "--layout", "v4", "--delayed", "--subscriptions", "--ledger", url=url)
    assert [table["table"].partition("@")[0] for table in tables] == [
        name,
        f"{name}.Delayed",
        "SubscriptionRouting",
        "Batch",
        "Part",
        "BatchMessage",
        "Quarantine",
        "Copy",
        "CopyGap",
        "Send",
        "Outgoing",
        "Consumer",
        "Inbox",
        "Archive",
    ]
    (again, *_) = answer("create", name, url=url)
    assert again["differences"] == ["the index on RowVersion is clustered, not nonclustered"]


def test_a_script_is_printed_and_not_run(name: str) -> None:
    nowhere = "mssql://sa:x@127.0.0.1:1/nsb"
    done = sqlqueue("create", name, "--ddl", "--delayed", "--ledger", "--create-schema", url=nowhere)
    assert (done.returncode, done.stderr) == (0, "")
    for text in (f"CREATE TABLE [nsb].[dbo].[{name}] (", "[Index_Due]", "CREATE SCHEMA [sqlqueue]", "\nGO\n"):
        assert text in done.stdout


def test_inspect_and_fix(url: str, name: str) -> None:
    answer("create", name, "--layout", "v1", url=url)
    found = answer("inspect", name, url=url)
    assert (found["kind"], found["layouts"], found["columns"]["Headers"]) == ("queue", ["v1"], "varchar(max) NOT NULL")
    assert [finding["code"] for finding in found["findings"]] == ["headers-not-unicode", "expires-index-missing"]
    assert found["findings"][1]["statement"].startswith("CREATE NONCLUSTERED INDEX [Index_Expires]")
    fixed = answer("inspect", name, "--fix", "expires-index-missing", url=url)
    assert (fixed["fixed"], fixed["expires_index"]) == ("expires-index-missing", "filtered")
    (row,) = [table for table in answer("inspect", "--all", url=url) if table["table"] == found["table"]]
    assert row["findings"] == ["headers-not-unicode"]
    assert row["layout"] == "varchar headers, RowVersion clustered, Expires filtered"
    shown = sqlqueue("inspect", name, url=url)
    assert shown.returncode == 0
    assert "ALTER COLUMN [Headers] nvarchar(max)" in shown.stdout
    assert "has no finding 'x'" in one_sentence(sqlqueue("inspect", name, "--fix", "x", url=url), 2)


def test_depth_shows_all_there_is_to_know(url: str, name: str) -> None:
    answer("create", name, "--delayed", url=url)
    answer("send", name, "--type", "T", url=url)
    exact = answer("depth", name, url=url)
    assert (exact["messages"], exact["expired"], exact["delayed"], exact["inserted"]) == (1, 0, 0, 1)
    assert 0 <= exact["oldest_seconds"] < 300
    quick = answer("depth", name, "--kind", "quick", url=url)
    assert (quick["kind"], quick["messages"], quick["expired"]) == ("quick", 1, None)
    assert "choose one of" in one_sentence(sqlqueue("depth", name, "--kind", "rough", url=url), 2)


def test_purge(url: str, name: str) -> None:
    answer("create", name, url=url)
    for _ in range(3):
        answer("send", name, "--type", "T", url=url)
    assert answer("purge", name, url=url)["deleted"] == 0
    assert "confirm that they may be lost" in one_sentence(sqlqueue("purge", name, "--all", url=url), 2)
    assert answer("purge", name, "--all", "--dry-run", url=url)["remaining"] == 3
    assert answer("purge", name, "--older-than", "1.5h", "--yes", url=url)["deleted"] == 0
    some = answer("purge", name, "--all", "--yes", "--max-messages", "2", url=url)
    assert (some["deleted"], some["remaining"], some["complete"]) == (2, 1, False)
    assert answer("purge", name, "--older-than", "0s", "--yes", url=url)["deleted"] == 1


def test_peek_goes_on_after_a_row_version(url: str, name: str) -> None:
    answer("create", name, url=url)
    for body in ("a", "bc"):
        answer("send", name, "--type", "T", "--body", body, url=url)
    first, second = answer("peek", name, url=url)
    assert (first["body_bytes"], second["body_bytes"]) == (1, 2)
    (rest,) = answer("peek", name, "--after", str(first["row_version"]), "--body", url=url)
    assert (rest["row_version"], rest["body"]) == (second["row_version"], "bc")


def test_peek_shows_the_number_of_messages_whatever_the_size_of_their_headers(url: str, name: str) -> None:
    answer("create", name, url=url)
    QueueClient.from_url(url).queue(name).send([Message({"Stack": "x" * 1_000_000}) for _ in range(5)])
    shown = [[each["row_version"] for each in answer("peek", name, "-n", count, url=url)] for count in ("4", "10")]
    assert list(map(len, shown)) == [4, 5]
    assert shown[1] == sorted(set(shown[1]))


def test_peek_and_forward_take_a_filter(url: str, name: str) -> None:
    for queue in (name, f"{name}.to"):
        answer("create", queue, url=url)
    for body, kind in (("a", "Shop.A"), ("b", "Shop.B"), ("c", "Shop.B"), ("d", "Shop.A")):
        answer("send", name, "--type", kind, "--body", body, url=url)
    of_b = ("--message-type", "Shop.B")
    first, second = answer("peek", name, *of_b, url=url)
    assert {first["type"], second["type"]} == {"Shop.B"}
    (with_body,) = answer("peek", name, *of_b, "--body", "--after", str(first["row_version"]), url=url)
    assert (with_body["body"], with_body["body_bytes"]) == ("c", 1)
    assert answer("peek", name, "--message-type", "Shop.C", "--body", url=url) == []
    assert answer("forward", name, f"{name}.to", *of_b, url=url)["messages"] == 2
    assert [message["body"] for message in answer("peek", f"{name}.to", "--body", url=url)] == ["b", "c"]
    assert [message["body"] for message in answer("peek", name, "--body", url=url)] == ["a", "d"]


def test_a_refused_move_gives_the_reason_alone(url: str, name: str) -> None:
    answer("create", name, url=url)
    for source, target in ((f"{name}.no", name), (name, f"{name}.no")):
        says = one_sentence(sqlqueue("forward", source, target, url=url), 1)
        assert f"The queue {name}.no@[dbo]@[sqlqueue] does not exist" in says
    assert "cannot be forwarded to itself" in one_sentence(sqlqueue("forward", name, name, url=url), 2)
    assert "no table name" in one_sentence(sqlqueue("forward", name, "@[dbo]", url=url), 2)


def test_drop(url: str, name: str) -> None:
    answer("create", name, url=url)
    answer("send", name, "--type", "T", url=url)
    assert "holds messages" in one_sentence(sqlqueue("drop", name, url=url), 1)
    assert answer("drop", name, "--force", url=url)["messages_lost"] == 1
    missing = one_sentence(sqlqueue("drop", name, url=url), 1)
    assert "does not exist" in missing
    assert missing.endswith(": there is nothing to drop, check the address.")


def test_secondary_queues_are_drained_on_request(url: str, name: str, tmp_path: Path) -> None:
    for queue in (name, f"{name}.WEB01", f"{name}.WEB02"):
        answer("create", queue, url=url)
        answer("send", queue, "--type", "T", url=url)
    batches = answer("drain", name, "--secondary", "--staging", str(tmp_path), url=url)
    assert [batch["queue"].partition("@")[0] for batch in batches] == [name, f"{name}.WEB01", f"{name}.WEB02"]
    assert [batch["messages"] for batch in batches] == [1, 1, 1]
    assert len({batch["batch_id"] for batch in batches}) == 3
    for queue in (name, f"{name}.WEB01"):
        answer("send", queue, "--type", "T", url=url)
    client = QueueClient.from_url(url)
    client.run_sql(f"CREATE TRIGGER [{name}.no] ON [{name}.WEB01] AFTER DELETE AS THROW 50001, 'no', 1")
    ended = sqlqueue("drain", name, "--secondary", "--staging", str(tmp_path), "--json", url=url)
    sealed = client.batches.list(name)[-1]
    assert f"Batch {sealed.batch_id} of {sealed.queue} is sealed and has 1 message." in ended.stderr


def test_commands_take_the_secondary_queues_on_request(
    url: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = [f"{queue}@[dbo]@[sqlqueue]" for queue in (name, f"{name}.WEB01")]
    answer("create", *addresses, "error", url=url)
    answer("send", name, "--type", "T", url=url)
    for _ in range(2):
        sent = answer("send", name, "--endpoint", "--instance", "WEB01", "--type", "T", url=url)
        assert sent["queue"] == addresses[1]
    assert "with the endpoint" in one_sentence(sqlqueue("send", name, "--instance", "W", "--type", "T", url=url), 2)
    depth = answer("depth", name, "--secondary", url=url)
    assert (depth["queue"], depth["messages"], depth["inserted"]) == (addresses[0], 3, 3)
    assert [(each["queue"], each["messages"]) for each in depth["queues"]] == list(zip(addresses, (1, 2), strict=True))
    assert "queues" not in answer("depth", name, url=url)
    shown = sqlqueue("depth", name, "--secondary", url=url).stdout
    assert all(address in shown for address in [*addresses, "all"])
    counted = answer("purge", name, "--all", "--secondary", "--dry-run", url=url)
    assert (counted["remaining"], [each["remaining"] for each in counted["queues"]]) == (3, [1, 2])
    (tmp_path / "two.py").write_text("def handle(message): pass\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    limited = ("--secondary", "--max-messages", "2")
    assert answer("consume", "two:handle", "--queue", name, *limited, url=url)["handled"] == 2
    purged = answer("purge", name, "--all", "--yes", "--secondary", url=url)
    assert (purged["deleted"], purged["complete"], len(purged["queues"])) == (1, True, 2)


def test_a_connection_string_of_net_serves_as_a_url(url: str, name: str) -> None:
    parts = urlsplit(url)
    text = (
        f"Data Source=tcp:{parts.hostname},{parts.port};Initial Catalog={parts.path.lstrip('/')};"
        f"User ID={parts.username};"
        f'Password="{unquote(parts.password or "")}";'
        "Encrypt=True;TrustServerCertificate=True;Max Pool Size=9;Queue Schema=dbo"
    )
    address = f"{name}@[dbo]@[sqlqueue]"
    assert answer("create", name, url=text) == [{"table": address, "created": True, "differences": []}]
    assert answer("depth", name, url=text)["messages"] == 0
    schema = text.replace("Queue Schema=dbo", "Queue Schema=n.s")
    assert "[n.s]" in one_sentence(sqlqueue("depth", name, url=schema), 1)
    broken = one_sentence(sqlqueue("depth", name, url=text.replace('Password="', "Password=s3cret;")), 2)
    assert "The text after Password" in broken
    assert str(parts.password) not in broken


def test_failures_are_one_sentence(url: str, name: str) -> None:
    assert "create it with" in one_sentence(sqlqueue("depth", name, url=url), 1)
    assert "create it with" in one_sentence(sqlqueue("drain", name, "--staging", "/tmp/never", url=url), 1)
    assert not Path("/tmp/never").exists()
    parts = urlsplit(url)
    wrong = url.replace(f":{parts.password}@", ":s3cret@")
    refused = one_sentence(sqlqueue("depth", name, url=wrong), 1)
    assert "refused the login" in refused
    assert "s3cret" not in refused
    for text in (url.replace(f":{parts.password}@", ":s3cret\udcff@"), f"{url}&APP=s3cret\udcff"):
        assert "is not text" in one_sentence(sqlqueue("depth", name, "--url", text), 2)
    for host in ("db..example", "h" * 64, "db\udcff"):
        assert "is not known" in one_sentence(sqlqueue("depth", name, "--url", f"mssql://sa:x@{host}:1/d"), 1)
        instance = ("--url", f"mssql://sa:x@{host}/d?instance=I")
        assert "is not known" in one_sentence(sqlqueue("depth", name, *instance), 1)
    assert "No SQL Server answers" in one_sentence(sqlqueue("depth", name, url="mssql://sa:x@127.0.0.1:1/d"), 1)
    assert "cannot be loaded" in one_sentence(
        sqlqueue("depth", name, url=url + "&driver=ODBC+Driver+99+for+SQL+Server"), 1
    )
    untrusted = url.replace("TrustServerCertificate=yes", "TrustServerCertificate=no")
    assert "TrustServerCertificate" in one_sentence(sqlqueue("depth", name, url=untrusted), 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["depth", "@[dbo]"], "no table name"),
        (["depth", "x" * 129], "shorten it"),
        (["send", "q", "--type", "T", "--header", "nothing"], "--header takes NAME=VALUE"),
        (["send", "q", "--type", "T", "--header", "=value"], "--header takes NAME=VALUE, not '='"),
        (["purge", "q", "--header", "a=1", "--header", "b=", "--header", "a=2", "--yes"], "once: 'a' is there twice"),
        (["send", "q", "--type", "T", "--header", "NServiceBus.EnclosedMessageTypes=U"], "say the type once"),
        (["drain", "q"], "give --staging, or --stage table"),
        (["drain", "q", "--staging", ""], "is empty"),
        (["drain", "q", "--staging", "/tmp/a", "--message-type", ""], "--message-type is empty"),
        (["send", "q", "--type", "T", "--body", "@/no/such/file"], "cannot be read"),
        (["send", "q", "--type", "T", "--body", "s3cret \udcff"], "--body is not text: give its bytes as @FILE"),
        (["drain", "q", "--staging", "/tmp/a[b]"], "patterns to Spark"),
        (["drain", "q", "--staging", "/tmp/a", "--max-messages", "0"], "--max-messages must be more than 0"),
        (["create", "q", "--layout", "round"], "no layout 'round'"),
        (["create", "#q"], "temporary table"),
        (["create", "q", "--layout", "v3.1", "--no-legacy-columns"], "need the legacy columns"),
        (["purge", "q", "--older-than", "soon"], "--older-than is 'soon': give a number of seconds, or a time as 90s"),
        (["purge", "q", "--older-than", "9999999999d", "--yes"], "too long a time"),
        (["purge", "q", "--all", "--older-than", "1d", "--yes"], "choose one"),
        (["inspect"], "Name one queue"),
        (["inspect", "q", "--all"], "Name one queue"),
    ],
)
def test_wrong_calls_are_refused_with_the_reason(url: str, arguments: list[str], sentence: str) -> None:
    assert sentence in one_sentence(sqlqueue(*arguments, url=url), 2)


def test_a_database_that_does_not_exist_is_named_by_all_commands(url: str, name: str) -> None:
    answer("create", name, "--delayed", url=url)
    elsewhere, sent = "q@[dbo]@[nosuch]", ("--type", "T")
    for command in (["depth"], ["peek"], ["send", *sent], ["send-delayed", *sent, "--after", "1h"]):
        said = one_sentence(sqlqueue(command[0], elsewhere, *command[1:], url=url), 1)
        assert "The database 'nosuch' of the queue" in said


def test_numbers_that_no_column_can_hold_are_refused(url: str, name: str) -> None:
    answer("create", name, "--delayed", url=url)
    large = str(10**20)
    for command in (["peek", name, "--after", large], ["cancel", name, large]):
        assert "a number is larger than any on the server" in one_sentence(sqlqueue(*command, url=url), 2)
    assert answer("delayed", name, "--count", large, url=url) == []


def test_wrong_calls_without_a_server() -> None:
    assert "one of --url" in one_sentence(sqlqueue("depth", "q"), 2)
    assert "must have the form" in one_sentence(sqlqueue("depth", "q", url="http://x"), 2)
    unknown = sqlqueue("depth")
    assert unknown.returncode == 2
    assert "Missing argument" in unknown.stderr


def test_a_table_that_is_no_queue(url: str, tmp_path: Path) -> None:
    answer("create", "seed", url=url)
    answer("send", "seed", "--type", "T", url=url)
    answer("drain", "seed", "--staging", str(tmp_path), url=url)
    assert "not a queue table" in one_sentence(sqlqueue("depth", "Batch@[sqlqueue]", url=url), 1)
