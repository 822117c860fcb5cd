# ruff: noqa: F403 - each node is named in its module only
"""Nodes of the syntax tree of Transact-SQL, under one name."""

from __future__ import annotations

from fakemssql.tsql.parser.nodes.definitions import *
from fakemssql.tsql.parser.nodes.queries import *
from fakemssql.tsql.parser.nodes.statements import *
