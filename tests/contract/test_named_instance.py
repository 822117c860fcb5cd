"""A server that is named by its instance, from a connection string of the transport's own documentation to a query."""

from __future__ import annotations

import os
import sys

import pytest

from airflow_sqlqueue import QueueClient
from airflow_sqlqueue.errors import ServerUnreachableError
from fakemssql import FakeServer
from fakemssql.browser import Browser


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address alone")
def test_a_named_instance_is_found_where_it_listens_now() -> None:
    pid = os.getpid()
    # An address of this process's own: the browser's port is the protocol's.
    host = f"127.{pid >> 16 & 127}.{pid >> 8 & 255}.{pid & 255 or 1}"
    with FakeServer(host=host, databases=["nservicebus"]) as server:
        client = QueueClient.from_url(
            rf"Data Source={host}\SQLEXPRESS;Initial Catalog=nservicebus;User ID={server.user};"
            f"Password={server.password};TrustServerCertificate=True"
        )
        with pytest.raises(ServerUnreachableError, match="does not give the port of the instance 'SQLEXPRESS'"):
            client.ping()
        with Browser({"SQLEXPRESS": server.port}, host):
            client.ping()
            assert client.run_sql("SELECT DB_NAME()")[0][0] == "nservicebus"
