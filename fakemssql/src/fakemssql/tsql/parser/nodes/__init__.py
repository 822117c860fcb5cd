# ruff: noqa: F403 - the names of a node stand in its module alone
"""The syntax tree of Transact-SQL: a module per kind of node, all of them by one name."""

from __future__ import annotations

from fakemssql.tsql.parser.nodes.definitions import *
from fakemssql.tsql.parser.nodes.queries import *
from fakemssql.tsql.parser.nodes.statements import *
