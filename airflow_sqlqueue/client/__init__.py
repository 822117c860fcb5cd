"""Client of one server, without Airflow: notebooks, the hook and the command line use it.

Its public names are the classes of what a client gives: managers and their results.
"""

from __future__ import annotations

from airflow_sqlqueue.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
