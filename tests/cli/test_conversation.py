"""``sqlqueue conversation``."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.messages.message import HeaderNames, Message
from tests.cli.runner import answer, sqlqueue


def test_the_steps_of_a_conversation_are_shown(url: str, tmp_path: Path) -> None:
    endpoint, conversation, name = (f"cli.{uuid.uuid4().hex[:10]}" for _ in range(3))
    answer("create", name, url=url)
    headers = {HeaderNames.PROCESSING_ENDPOINT: endpoint, HeaderNames.CONVERSATION_ID: conversation}
    QueueClient.from_url(url).queue(name).send([Message(headers), Message(headers)])
    answer("drain", name, "--staging", str(tmp_path), url=url)
    # Batches of other tests, whose files are gone, are counted in a note.
    assert "No batch has it. For a queue, use" in sqlqueue("conversation", "none", url=url).stderr
    done = sqlqueue("conversation", conversation, "--json", url=url)
    assert done.returncode == 0, done.stderr
    assert [step["receiver"] for step in json.loads(done.stdout)["items"]] == [endpoint]
