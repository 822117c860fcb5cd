"""Allowed values in the fields of a connection: ODBC keywords, drivers, hosts that get a token of Microsoft Entra ID,
connections that give one, masters and settings of Spark.

More people edit connections than DAGs. An editor of a connection must not load code, write files, or reach a secret or
an identity that is not in the connection itself. Drivers and Spark get new settings with each version, so each list
names the allowed values and everything else is refused (docs/security.md, "People who edit connections").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError

MICROSOFT_DRIVERS = ("ODBC Driver 18 for SQL Server", "ODBC Driver 17 for SQL Server")

_MICROSOFTS = re.compile(r"(?i:ODBC Driver \d+ for SQL Server|(.*[/\\])?[^/\\]*msodbcsql[^/\\]*)")
"""Names of Microsoft's driver, and paths of its library. Its values are escaped by its rules, and its texts read."""

_KEYWORDS = {
    *("app", "language", "wsid"),
    *("applicationintent", "multisubnetfailover", "transparentnetworkipresolution", "ipaddresspreference"),
    *("authentication", "trusted_connection", "serverspn", "failover_partner", "failoverpartnerspn"),
    *("encrypt", "trustservercertificate", "hostnameincertificate", "servercertificate"),
    *("connectretrycount", "connectretryinterval", "keepalive", "keepaliveinterval", "packetsize"),
    *("columnencryption", "keystoreauthentication", "keystoreprincipalid", "keystoresecret"),
    *("ansinpw", "autotranslate", "longasmax", "quotedid", "regional", "replication", "usefmtonly"),
}
"""ODBC keywords that may be set, in lower case.

Other keywords write files (DumpFile, QueryLogFile), load libraries (KeystoreLocation), replace the connection's fields
(PWD, DSN, Port), or make every transaction fail: with MARS_Connection a transaction ends with the batch that began it
(error 3997).
"""

_NOT_IN_CONNECTIONS = {"servercertificate", "serverspn", "failoverpartnerspn"}
"""ODBC keywords that only a URL or a program may set. The first names a file to read. With the others a host of the
editor's choice would get a Kerberos ticket of the process for another server, and could log in there as the process."""

_SWITCHES = {
    "columnencryption": {"enabled", "disabled"},
    "encrypt": {"yes", "no", "mandatory", "optional", "strict"},
    "trustservercertificate": {"yes", "no"},
}
"""ODBC keywords with a fixed list of values. An attestation URL for column encryption is not allowed, because the
driver would connect to it. For the other two the driver silently replaces a value that it does not know.
"""

_SECONDS = {"keepalive", "keepaliveinterval"}
"""ODBC keywords whose value the system refuses unless it is 1 to 32,767 (tcp(7)): the driver then reports a timeout."""

CLOUDS: Mapping[str, str] = {
    ".database.windows.net": "https://database.windows.net/.default",
    ".database.fabric.microsoft.com": "https://database.windows.net/.default",
    ".database.chinacloudapi.cn": "https://database.chinacloudapi.cn/.default",
    ".database.usgovcloudapi.net": "https://database.usgovcloudapi.net/.default",
}
"""The domains of Azure SQL and of SQL database in Fabric, each with the scope of a token. Microsoft runs every
server in them, whichever customer created it."""

_HOST = re.compile(r"(?i:[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)")
"""A plain host name. In other texts the driver would find a protocol, an instance or a port, and so another host."""

_GIVES_TOKENS = "sqlqueue_access_token"
"""The key in a connection's own extra that allows it to give access tokens."""

ANY = "*"

_SPARK_SETTINGS = {
    *("spark.driver.cores", "spark.driver.maxResultSize", "spark.driver.memory"),
    *("spark.driver.memoryOverhead", "spark.driver.memoryOverheadFactor"),
    *("spark.executor.cores", "spark.executor.instances", "spark.executor.memory", "spark.executor.pyspark.memory"),
    *("spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor", "spark.executor.heartbeatInterval"),
    *("spark.cores.max", "spark.task.cpus", "spark.default.parallelism", "spark.network.timeout"),
    *("spark.memory.fraction", "spark.memory.offHeap.enabled", "spark.memory.offHeap.size"),
    *("spark.dynamicAllocation.enabled", "spark.dynamicAllocation.initialExecutors"),
    *("spark.dynamicAllocation.maxExecutors", "spark.dynamicAllocation.minExecutors"),
    *("spark.dynamicAllocation.shuffleTracking.enabled", "spark.scheduler.mode"),
    *("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled"),
    *("spark.sql.autoBroadcastJoinThreshold", "spark.sql.files.maxPartitionBytes", "spark.sql.shuffle.partitions"),
    *("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.session.timeZone"),
    *("spark.kubernetes.namespace", "spark.kubernetes.executor.limit.cores"),
    *("spark.kubernetes.executor.request.cores", "spark.yarn.queue"),
}
"""Settings of Spark that an extra may have: the job's resources in the cluster and its place in the queue. Other
settings load code (spark.jars, spark.plugins, spark.driver.extraJavaOptions, every setting with a class name), write
files or send secrets to other hosts."""

_SPARK_VALUE = re.compile(r"[\w.,:+/-]{1,253}")
"""A number, size, time or name. Other texts are refused, because some values become options of a JVM."""

_LOCAL = re.compile(r"local(\[[\d*, ]+\])?")


def check_is_microsofts(driver: str) -> None:
    """Raise :class:`ConfigurationError` for an ODBC driver that is not Microsoft's."""
    if not _MICROSOFTS.fullmatch(driver):
        raise ConfigurationError(
            f"The ODBC driver {driver!r} is not Microsoft's, the only one that is supported: leave the driver out, or "
            f"name {MICROSOFT_DRIVERS[0]!r} or the path of its library."
        )


def check_keywords(keywords: Mapping[str, str], *, in_connection: bool = False) -> None:
    """Raise :class:`ConfigurationError` for an ODBC keyword that is not allowed or is set twice.

    ``in_connection``: also refuse the keywords that only a URL or a program may set.
    """
    seen = set()
    for keyword, value in keywords.items():
        name = keyword.strip().lower()
        if name not in _KEYWORDS or (in_connection and name in _NOT_IN_CONNECTIONS):
            raise ConfigurationError(
                f"The ODBC keyword {keyword!r} cannot be set: remove it, or see 'The ODBC driver' in the manual for "
                "those that can."
            )
        if name in seen:
            raise ConfigurationError(f"The ODBC keyword {keyword!r} is set twice: remove one of them.")
        seen.add(name)
        if name in _SWITCHES and value.lower() not in _SWITCHES[name]:
            raise ConfigurationError(
                f"The ODBC keyword {keyword!r} has a value that cannot be set: "
                f"give one of {', '.join(sorted(_SWITCHES[name]))}."
            )
        if name in _SECONDS and not (re.fullmatch("[0-9]{1,5}", value) and 1 <= int(value) <= 32_767):
            raise ConfigurationError(f"The ODBC keyword {keyword!r} takes a number of seconds, 1 to 32767: correct it.")


@dataclass(frozen=True)
class Allowed:
    """Permissions of connections beyond the lists of this module, from the configuration of Airflow.

    ``any_driver``: any ODBC driver. ``token_hosts``: further hosts that get tokens; a name that begins with a dot means
    all hosts in that domain. ``token_connections``: ids of connections that may give tokens. ``spark_settings``:
    further settings of Spark. ``spark_masters``: the only masters and Spark Connect servers besides this machine. ``*``
    means all.
    """

    any_driver: bool = False
    token_hosts: Collection[str] = ()
    token_connections: Collection[str] = ()
    spark_settings: Collection[str] = ()
    spark_masters: Collection[str] = (ANY,)

    def check_driver(self, name: str, installed: Collection[str]) -> None:
        """Raise :class:`ConfigurationError` unless an extra may name this driver: a path would load code."""
        if not self.any_driver and not (name in MICROSOFT_DRIVERS and name in installed):
            raise ConfigurationError(
                "the driver in its extra is not an installed ODBC driver of Microsoft's for SQL Server: remove it, "
                "name the driver in the hook's arguments, or set [sqlqueue] allow_driver_in_extra to True in Airflow's "
                "configuration."
            )

    def check_token_host(self, host: str) -> None:
        """Raise :class:`ConfigurationError` unless a login of Entra ID may go to this host."""
        if ANY in self.token_hosts:
            return
        name, listed = host.lower(), {each.lower() for each in self.token_hosts}
        domains = (*CLOUDS, *(each for each in listed if each.startswith(".")))
        if name in listed or (_HOST.fullmatch(name) and any(name.endswith(domain) for domain in domains)):
            return
        raise ConfigurationError(
            f"the host {host!r} is not one of Azure's, and would get a token of Microsoft Entra ID: correct it, or "
            "name it in [sqlqueue] token_hosts of Airflow's configuration."
        )

    def check_token_connection(self, conn_id: str, extra: Mapping[str, Any]) -> None:
        """Raise :class:`ConfigurationError` unless this connection may give access tokens."""
        says_so = str(extra.get(_GIVES_TOKENS, "")).lower() == "true"
        if not says_so and {conn_id, ANY}.isdisjoint(self.token_connections):
            raise ConfigurationError(
                f"The connection {conn_id!r} is not one that gives access tokens: set {_GIVES_TOKENS} to true in its "
                "extra, or name it in [sqlqueue] access_token_connections of Airflow's configuration."
            )

    def check_spark_master(self, conn_id: str, url: str) -> None:
        """Raise :class:`ConfigurationError` unless a connection may name this master or Spark Connect server."""
        place = url.partition("/;")[0]
        if not _LOCAL.fullmatch(url) and {place, ANY}.isdisjoint(self.spark_masters):
            raise ConfigurationError(
                f"Connection {conn_id!r} names a master or server of Spark that is not in [sqlqueue] spark_masters of "
                "Airflow's configuration: correct the connection, or name it there."
            )

    def check_spark_settings(self, conn_id: str, settings: Mapping[str, str]) -> None:
        """Raise :class:`ConfigurationError` for a setting of Spark that an extra must not have."""
        for name, value in settings.items():
            if not {name, ANY}.isdisjoint(self.spark_settings):
                continue
            if name not in _SPARK_SETTINGS:
                raise ConfigurationError(
                    f"Connection {conn_id!r} may not set {name!r} in its extra: set it in the task's spark_conf, or "
                    "name it in [sqlqueue] spark_settings_in_extra of Airflow's configuration."
                )
            if not _SPARK_VALUE.fullmatch(value):
                raise ConfigurationError(
                    f"Connection {conn_id!r} has a value of {name!r} in its extra that is not a number, size, time or "
                    "name: correct it."
                )


ONLY_LISTED = Allowed()
"""Permissions without anything beyond the lists."""
