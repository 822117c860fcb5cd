"""Actions on failed messages: the one table from which client, operators, commands and the page take them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.errorqueue import effects
from airflow_sqlqueue.errorqueue.bulk_action import BulkAction, Clock, Effect, ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.errorqueue.effects import ActionInputs, ErrorStore
from airflow_sqlqueue.errorqueue.filters import ErrorFilter
from airflow_sqlqueue.errorqueue.scan import FailedMessages
from airflow_sqlqueue.errors import ConfigurationError

OnProgress = Callable[[ErrorQueueResult], None]
"""Function that gets the result so far after each transaction."""


@dataclass(frozen=True)
class Action:
    """Action on failed messages, or on ``archived`` ones, with its words.

    :param name: the name in commands, operators and requests of the page.
    :param label: the text of a button, as ``Archive``.
    :param doing: the beginning of a sentence, as ``Archiving``.
    :param done: the participle for what it did and would do, as ``archived``.
    :param about: a sentence on it for people, with which the command's help begins.
    :param effect: the effect on a chunk of messages.
    :param needs: names of the :class:`.ActionInputs` without which it does not begin.
    :param takes: names of further ones.
    :param paced: the page offers it for the oldest messages alone too, at a rate.
    """

    name: str
    label: str
    doing: str
    done: str
    about: str
    effect: Callable[[ErrorStore, ActionInputs], Effect]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    archived: bool = False
    paced: bool = False

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of all its inputs."""
        return (*self.needs, *self.takes)

    @property
    def loses_messages(self) -> bool:
        """Whether the messages are gone for good, so that somebody has to confirm it."""
        return "confirm" in self.needs

    def check(self, given: Collection[str], *, dry_run: bool = False) -> None:
        """Raise :class:`ConfigurationError` for the name of an input that it does not have, and for a missing one."""
        if unknown := sorted({*given} - {*self.input_names}):
            raise ConfigurationError(f"The action {self.name!r} takes no {unknown[0]}: leave it out.")
        missing = [name for name in self.needs if name not in given and not (dry_run and name == "confirm")]
        if "confirm" in missing:
            raise ConfigurationError(
                "This deletes messages for good: confirm that they may be lost, or make a dry run."
            )
        if missing:
            raise ConfigurationError(f"The action {self.name!r} needs {missing[0]}: give it.")

    def inputs(self, *, dry_run: bool = False, **given: Any) -> ActionInputs:
        """Return the inputs, also of texts as templates make them. Raises as :meth:`check`."""
        inputs = {each.name: each for each in ActionInputs.described()}
        given = {name: inputs[name].read(value) if name in inputs else value for name, value in given.items()}
        given = {name: value for name, value in given.items() if value not in (None, "", False)}
        self.check(given, dry_run=dry_run)
        return ActionInputs(**given)

    def run(
        self,
        store: ErrorStore,
        given: ActionInputs,
        where: ErrorFilter,
        options: ErrorQueueOptions | None = None,
        *,
        on_progress: OnProgress | None = None,
        clock: Clock | None = None,
    ) -> ErrorQueueResult:
        """Do it to the messages that match. Raises as :meth:`.BulkAction.run`."""
        source, effect = self.source(store, given), self.effect(store, given)
        options = options or ErrorQueueOptions()
        return BulkAction(self.doing, source, effect, where, options, on_progress=on_progress, clock=clock).run()

    def source(self, store: ErrorStore, given: ActionInputs) -> FailedMessages:
        """Return the messages that it may be done to: those of the error queue, or archived ones."""
        return store.archived(given.older_than) if self.archived else store.failed()


ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        Action(
            "return",
            "Return",
            "Returning",
            "returned",
            "Return failed messages to the queues where they failed.",
            effects.ReturnToSource,
            paced=True,
        ),
        Action(
            "redirect",
            "Redirect",
            "Redirecting",
            "redirected",
            "Return failed messages to a queue that you name.",
            effects.Redirect,
            needs=("to_queue",),
            takes=("malformed",),
        ),
        Action(
            "park",
            "Park",
            "Parking",
            "parked with the headers of their failure",
            "Move failed messages as they are to another queue.",
            effects.Park,
            needs=("to_queue",),
        ),
        Action(
            "archive",
            "Archive",
            "Archiving",
            "archived",
            "Move failed messages into the archive, with a reason.",
            effects.PutIntoArchive,
            takes=("reason", "by"),
        ),
        Action(
            "delete",
            "Delete",
            "Deleting",
            "deleted for good",
            "Delete failed messages for good.",
            effects.Delete,
            needs=("confirm",),
        ),
        Action(
            "restore",
            "Restore",
            "Restoring",
            "restored",
            "Put archived messages back into their error queue.",
            effects.Restore,
            archived=True,
        ),
        Action(
            "purge_archive",
            "Delete",
            "Deleting archived",
            "deleted from the archive for good",
            "Delete archived messages for good.",
            effects.DeleteArchived,
            needs=("confirm",),
            takes=("older_than",),
            archived=True,
        ),
    )
}
"""Actions by name. A further one is one more entry, with its effect."""


def action_named(name: str) -> Action:
    """Return an action of :data:`ACTIONS`. Raises :class:`ConfigurationError` for an unknown name."""
    if name not in ACTIONS:
        raise ConfigurationError(f"There is no action {name!r} on failed messages: choose from {', '.join(ACTIONS)}.")
    return ACTIONS[name]
