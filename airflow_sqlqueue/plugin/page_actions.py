"""Actions of the page by name, for its previews, its runs and its buttons."""

from __future__ import annotations

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.plugin.batch_actions import BATCH_ACTIONS, BatchAction
from airflow_sqlqueue.plugin.failure_actions import FailureAction
from airflow_sqlqueue.queue.errors.actions import ACTIONS


def page_actions() -> dict[str, FailureAction | BatchAction]:
    """All actions, by name."""
    return {**{name: FailureAction(action) for name, action in ACTIONS.items()}, **BATCH_ACTIONS}


def page_action(name: str) -> FailureAction | BatchAction:
    """Return an action by its name. Raises :class:`ConfigurationError` for an unknown one."""
    known = page_actions()
    if name not in known:
        raise ConfigurationError(f"Unknown action: choose one of {', '.join(known)}.")
    return known[name]
