"""Made-up failures, with which ``errors`` and ``return`` can be tried."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.cli.runner import answer

QUEUES = ("Sales", "Billing", "Shipping")


def test_generated_failures_are_triaged_and_returned(server: Any) -> None:
    url = str(server.url(f"failures_{uuid.uuid4().hex[:8]}"))
    database = url.rpartition("/")[2].partition("?")[0]
    for name in ("error", *QUEUES):
        answer("create", name, url=url)
    sent = answer("generate", "error", "--count", "300", "--failed", url=url)
    assert (sent["sent"], sent["failed_in"]) == (300, [f"{name}@[dbo]@[{database}]" for name in QUEUES])
    found = answer("errors", url=url)
    kinds: dict[str, int] = {}
    for group in found:
        kinds[group["kind"]] = kinds.get(group["kind"], 0) + group["messages"]
    assert kinds["failed"] >= 299
    assert kinds.keys() <= {"failed", "malformed headers"}
    failed = [group for group in found if group["kind"] == "failed"]
    assert len({group["exception_type"] for group in failed}) >= 5
    assert {group["endpoint"] for group in failed} == set(QUEUES)
    now = datetime.now(timezone.utc)
    times = [datetime.fromisoformat(group[key]) for group in failed for key in ("first", "last")]
    assert now - timedelta(days=2) <= min(times) < now - timedelta(days=1) < max(times) <= now
    returned = answer("return", "--all", url=url)
    assert returned["messages"] == kinds["failed"]
    depths = [answer("depth", name, url=url)["messages"] for name in QUEUES]
    assert sum(depths) == returned["messages"]
    assert min(depths) > 0
