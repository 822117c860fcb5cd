"""The command consume: its handlers, its end by signals, and its health port."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.cli import consume
from airflow_sqlqueue.cli.consume import load_handlers
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.messages.message import HeaderNames, Message
from airflow_sqlqueue.server.settings import ConnectionSettings
from tests.cli.runner import one_sentence, sqlqueue
from tests.cli.service import WAIT, Service
from tests.drains import bodies
from tests.faults.proxy import Proxy

HANDLERS = """
import sys
from airflow_sqlqueue import Message, MessageHandlers

handlers = MessageHandlers()


@handlers.handles("Shop.OrderPlaced")
def placed(message, client):
    print("placed", message.text(), flush=True)
    client.queue(message.headers["bill"]).send([Message({}, message.body)])
    if "halts" in message.headers:
        sys.stdin.readline()


@handlers.default
def other(message):
    print("other", message.text(), flush=True)
    raise ValueError("a secret value")


def plain(message):
    print("plain", message.text(), flush=True)


def fetching(message):
    assert message.payload("Picture").content == b"1"


NUMBER = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module of handlers."""
    (tmp_path / "shop_handlers.py").write_text(HANDLERS, "utf-8")
    return tmp_path


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same folder as the current one; imports from it are undone at the end."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("shop_")]:
        del sys.modules[name]


class Shop:
    """Queues of a test: orders, which become bills, and their error queue."""

    def __init__(self, url: str) -> None:
        client = QueueClient.from_url(url)
        name = f"cli.{uuid.uuid4().hex[:10]}"
        self.orders, self.bills, self.error = (client.queue(f"{name}{end}") for end in ("", ".bills", ".error"))
        for queue in (self.orders, self.bills, self.error):
            client.tables.create(queue.address.table)
        self.options = ("--queue", name, "--error-queue", f"{name}.error", "--delayed-retries", "0")

    def place(self, *texts: bytes, **headers: str) -> None:
        kind = {HeaderNames.ENCLOSED_MESSAGE_TYPES: "Shop.OrderPlaced, Shop", "bill": self.bills.address.table}
        self.orders.send([Message({**kind, **headers}, text) for text in texts])


@pytest.fixture
def shop(url: str) -> Shop:
    return Shop(url)


Start = Callable[..., Service]


@pytest.fixture
def start(url: str, folder: Path, shop: Shop) -> Iterator[Start]:
    """Starts a service on the orders; it is killed at the end if it is still there."""
    with ExitStack() as stack:

        def start(*options: str, url: str = url) -> Service:
            return stack.enter_context(Service(folder, url, "shop_handlers:handlers", *shop.options, *options))

        yield start


def test_messages_go_to_the_functions_of_a_module(shop: Shop, url: str, here: Path) -> None:
    shop.place(b"1", b"2")
    shop.orders.send([Message({}, b"3")])
    options = (*shop.options, "--until-empty", "--max-handlers", "1", "--immediate-retries", "1", "--json")
    service = sqlqueue("consume", "shop_handlers:handlers", *options, url=url)
    *printed, result = service.stdout.splitlines()
    done = json.loads(result)
    assert done["queue"] == shop.orders.address.canonical
    assert {name: done[name] for name in ("handled", "failed", "rolled_back", "messages")} == {
        "handled": 2,
        "failed": 1,
        "rolled_back": 2,
        "messages": 3,
    }
    assert printed == ["placed 1", "placed 2", "other 3", "other 3"]
    assert (bodies(shop.bills), bodies(shop.error)) == ([b"1", b"2"], [b"3"])
    assert "a secret value" not in service.stderr


def test_a_function_handles_all_messages(shop: Shop, url: str, here: Path) -> None:
    shop.orders.send([Message({}, b"1"), Message({}, b"2")])
    options = (*shop.options, "--max-messages", "2", "--inbox", "--transaction-mode", "receive_only", "--json")
    done = sqlqueue("consume", "shop_handlers:plain", *options, url=url)
    *printed, result = done.stdout.splitlines()
    assert (json.loads(result)["handled"], printed) == (2, ["plain 1", "plain 2"])


def test_a_signal_ends_it_after_the_message_in_hand(shop: Shop, start: Start) -> None:
    """SIGINT here, SIGTERM in the test of the health port."""
    shop.place(b"1", b"2", halts="yes")
    service = start("--max-handlers", "1")
    service.says("placed 1", stream="stdout")
    service.signal(signal.SIGINT)
    service.says("Stopping after the messages in hand")
    assert service.process.poll() is None
    service.go_on()
    assert service.result()["handled"] == 1
    assert (bodies(shop.bills), bodies(shop.orders)) == ([b"1"], [b"2"])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_rolls_the_message_in_hand_back(
    shop: Shop, start: Start, number: signal.Signals, code: int
) -> None:
    shop.place(b"1", halts="yes")
    service = start()
    service.says("placed 1", stream="stdout")
    service.signal()
    service.says("Stopping after the messages in hand")
    service.signal(number)
    assert service.ended() == code
    assert "Stopped at once: the messages in hand are rolled back." in service.stderr
    assert "Traceback" not in service.stderr
    assert "Fatal" not in service.stderr
    wait_for(lambda: bodies(shop.orders) == [b"1"])
    assert bodies(shop.bills) == []


def test_a_signal_ends_an_idle_service(shop: Shop, start: Start) -> None:
    service = start("--poll-seconds", "30")
    service.says("Consuming the queue")
    shop.place(b"1")
    service.signal()
    assert service.result()["messages"] in (0, 1)


def test_a_limit_on_failures_ends_it_with_exit_code_1(shop: Shop, url: str, here: Path) -> None:
    shop.orders.send([Message({}, b"1"), Message({}, b"2")])
    options = (*shop.options, "--immediate-retries", "0", "--max-failed", "0")
    done = sqlqueue("consume", "shop_handlers:handlers", *options, url=url)
    assert done.returncode == 1
    assert "Error: Consuming the queue" in done.stderr
    assert "--max-failed is 0" in done.stderr
    assert done.stdout.count("\n") <= 2


def get(address: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(address, method=method)
    try:
        with urllib.request.urlopen(request, timeout=WAIT) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def health_url(service: Service) -> str:
    found = re.search(r"Health and metrics are at (http://\S+:\d+)\n", service.says("Health and metrics are at"))
    assert found
    return found[1]


def test_health_and_metrics(shop: Shop, start: Start) -> None:
    shop.place(b"1")
    shop.place(b"2", halts="yes")
    service = start("--health-port", "0", "--max-handlers", "1")
    service.says("placed 2", stream="stdout")
    address = health_url(service)
    assert address.startswith("http://127.0.0.1:")
    assert get(f"{address}/health/live") == (200, "live\n")
    assert get(f"{address}/health/ready?probe=1") == (200, "ready\n")
    assert get(f"{address}/")[0] == get(f"{address}/health")[0] == 404
    assert get(f"{address}/metrics", "POST")[0] == 501
    status, text = get(f"{address}/metrics")
    labels = f'{{catalog="sqlqueue",schema="dbo",queue="{shop.orders.address.table}"}}'
    assert status == 200
    assert f"sqlqueue_consume_handled_total{labels} 1\n" in text
    assert f"sqlqueue_consume_ready{labels} 1\n" in text
    service.signal()
    service.says("Stopping after the messages in hand")
    wait_for(lambda: get(f"{address}/health/ready") == (503, "not ready\n"))
    assert get(f"{address}/health/live")[0] == 200
    service.go_on()
    assert service.result()["handled"] == 2


def test_it_is_not_ready_while_the_server_is_away(shop: Shop, start: Start, settings: ConnectionSettings) -> None:
    """It is ready again when the server is back, and handles what was sent meanwhile."""
    with Proxy(settings, listening=False) as proxy:
        port = proxy.settings.port
        service = start("--health-port", "0", "--poll-seconds", "0.1", url=url_of(proxy.settings))
        address = health_url(service)
        service.says("is tried again in")
        assert get(f"{address}/health/ready") == (503, "not ready\n")
        assert get(f"{address}/health/live")[0] == 200
        proxy.listen()
        wait_for(lambda: get(f"{address}/health/ready")[0] == 200)
    tries = service.stderr.count("is tried again in")
    service.says("is tried again in", times=tries + 1)
    wait_for(lambda: get(f"{address}/health/ready")[0] == 503)
    shop.place(b"1")
    with Proxy(settings, port=port):
        wait_for(lambda: get(f"{address}/health/ready")[0] == 200)
        service.says("placed 1", stream="stdout")
        service.signal()
        assert service.result()["handled"] == 1


def url_of(settings: ConnectionSettings) -> str:
    login = f"{settings.user}:{settings.password}"
    # The driver would try for ten seconds to restore a session.
    options = "Encrypt=no&TrustServerCertificate=yes&ConnectRetryCount=0"
    return f"mssql://{login}@{settings.host}:{settings.port}/{settings.database}?{options}"


def test_a_signal_ends_a_wait_for_the_server(start: Start, settings: ConnectionSettings) -> None:
    with Proxy(settings, listening=False) as proxy:
        service = start(url=url_of(proxy.settings))
        service.says("is tried again in")
        service.signal()
        assert service.result()["messages"] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["nothing_here:handlers"], "no module 'nothing_here' in the folder"),
        (["shop_handlers"], "names no handlers: give MODULE:NAME"),
        (["shop_handlers:"], "names no handlers: give MODULE:NAME"),
        (["shop_handlers:handlers()"], "names no handlers: give MODULE:NAME"),
        (["shop_handlers:missing"], "The module 'shop_handlers' has no 'missing'"),
        (["shop_handlers:NUMBER"], "is a int: name a MessageHandlers or a function"),
        (["shop_handlers:handlers", "--max-handlers", "0"], "--max-handlers must be 1 to 256"),
        (["shop_handlers:handlers", "--inbox", "--transaction-mode", "none"], "choose another --transaction-mode"),
        (["shop_handlers:handlers", "--health-port", "1", "--health-host", "no.such.host.invalid"], "health port 1"),
        (["shop_handlers:handlers", "--health-port", "1", "--health-host", "no..such"], "used: unknown address"),
    ],
)
def test_a_wrong_call_is_one_sentence(url: str, here: Path, options: list[str], says: str) -> None:
    assert says in one_sentence(sqlqueue("consume", *options, "--queue", "cli.x", url=url), 2)


def test_lines_of_progress_show_new_counts(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level("INFO", "airflow_sqlqueue.cli.consume")
    lines = consume._ProgressLines()
    lines.log({"handled": 5, "messages": 5})
    assert caplog.messages == [], "the time has not come"
    monkeypatch.setattr(consume, "_PROGRESS_SECONDS", 0.0)
    lines.log({"handled": 1_200, "rolled_back": 0, "messages": 1_200})
    lines.log({"handled": 1_200, "rolled_back": 0, "messages": 1_200})
    lines.log({"handled": 1_200, "rolled_back": 2, "messages": 1_200})
    first, second = (line.partition(";")[0] for line in caplog.messages)
    assert first == "1,200 handled, 1,200 messages"
    assert second == "1,200 handled, 2 rolled back, 1,200 messages"


def test_payloads_are_fetched_from_a_data_bus(shop: Shop, url: str, here: Path, tmp_path: Path) -> None:
    """One is over the limit."""
    share = tmp_path / "share"
    share.mkdir()
    (share / "small").write_bytes(b"1")
    (share / "large").write_bytes(b"x" * 2000)
    shop.orders.send([Message({f"{HeaderNames.DATA_BUS_PREFIX}Picture": key}, b"") for key in ("small", "large")])
    options = ("--data-bus", str(share), "--payload-bytes", "1KiB", "--until-empty", "--max-handlers", "1")
    done = answer_of("consume", "shop_handlers:fetching", *shop.options, *options, url=url)
    assert (done["handled"], done["failed"], done["rolled_back"]) == (1, 1, 1)


def test_a_queue_is_required(url: str, here: Path) -> None:
    assert "Name the queue" in one_sentence(sqlqueue("consume", "shop_handlers:handlers", url=url), 2)
    missing = one_sentence(sqlqueue("consume", "shop_handlers:plain", "--queue", "cli.missing", url=url), 1)
    assert "does not exist" in missing


def test_an_endpoint_names_its_queue(shop: Shop, url: str, here: Path) -> None:
    options = ["--endpoint", shop.orders.address.table, *shop.options[2:], "--until-empty"]
    assert answer_of("consume", "shop_handlers:plain", *options, url=url)["queue"] == shop.orders.address.canonical


def answer_of(*arguments: str, url: str) -> dict[str, Any]:
    done = sqlqueue(*arguments, "--json", url=url)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_a_nested_name_is_found_and_an_error_of_the_module_is_its_own(here: Path) -> None:
    package = here / "shop_package"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "nested.py").write_text("class Shop:\n    handle = print\n", "utf-8")
    (package / "broken.py").write_text("import shop_dependency_that_is_missing\n", "utf-8")
    assert load_handlers("shop_package.nested:Shop.handle").max_batch == 1
    with pytest.raises(ConfigurationError, match="There is no module"):
        load_handlers("shop_package.missing:handlers")
    with pytest.raises(ModuleNotFoundError, match="shop_dependency_that_is_missing"):
        load_handlers("shop_package.broken:handlers")


def test_a_port_in_use_is_one_sentence(url: str, here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = ["--queue", "cli.x", "--health-port", str(taken.getsockname()[1])]
        said = one_sentence(sqlqueue("consume", "shop_handlers:plain", *options, url=url), 2)
    assert "cannot be used: Address already in use" in said
