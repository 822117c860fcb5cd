"""Actions on failed messages: the one table from which client, operators, commands and the page take them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.queue.errors import effects
from airflow_sqlqueue.queue.errors.bulk_action import BulkAction, Clock, Effect, ErrorQueueOptions, ErrorQueueResult
from airflow_sqlqueue.queue.errors.filters import ErrorFilter
from airflow_sqlqueue.queue.errors.scan import FailedMessages
from airflow_sqlqueue.untrusted import quoted

OnProgress = Callable[[ErrorQueueResult], None]
"""Function that gets the result so far after each transaction."""


@dataclass(frozen=True)
class Action:
    """Action on failed messages, or on ``archived`` ones, with its words.

    :param name: the name in commands, operators and requests of the page.
    :param done: the participle for what it did and would do, as ``archived``.
    :param about: a sentence for people, with which the command's help begins; its verb is the label of buttons.
    :param effect: the effect on a chunk of messages.
    :param needs: names of the :class:`.ActionInputs` without which it does not begin.
    :param takes: names of further ones.
    :param paced: the page offers it for the oldest messages alone too, at a rate.
    """

    name: str
    done: str
    about: str
    effect: Callable[[effects.ErrorStore, effects.ActionInputs], Effect]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    archived: bool = False
    paced: bool = False

    @property
    def label(self) -> str:
        """The text of a button, as ``Archive``."""
        return self.about.partition(" ")[0]

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

    def inputs(self, *, dry_run: bool = False, **given: Any) -> effects.ActionInputs:
        """Return the inputs, also of texts as templates make them. Raises as :meth:`check`."""
        inputs = {each.name: each for each in effects.ActionInputs.described()}
        given = {name: inputs[name].read(value) if name in inputs else value for name, value in given.items()}
        given = {name: value for name, value in given.items() if value not in (None, "", False)}
        self.check(given, dry_run=dry_run)
        return effects.ActionInputs(**given)

    def run(
        self,
        store: effects.ErrorStore,
        given: effects.ActionInputs,
        where: ErrorFilter,
        options: ErrorQueueOptions | None = None,
        *,
        on_progress: OnProgress | None = None,
        clock: Clock | None = None,
    ) -> ErrorQueueResult:
        """Do it to the messages that match. Raises as :meth:`.BulkAction.run`."""
        source, effect = self.source(store, given), self.effect(store, given)
        options = ErrorQueueOptions.or_default(options)
        return BulkAction(self.name, source, effect, where, options, on_progress=on_progress, clock=clock).run()

    def source(self, store: effects.ErrorStore, given: effects.ActionInputs) -> FailedMessages:
        """Return the messages that it may be done to: those of the error queue, or archived ones."""
        return store.archived(given.older_than) if self.archived else store.failed()


_TABLE = (
    Action("return", "returned", "Return failed messages to the queues where they failed.", effects.Return, paced=True),
    Action(
        "redirect",
        "redirected",
        "Redirect failed messages to a queue that you name.",
        effects.Redirect,
        needs=("to_queue",),
        takes=("malformed",),
    ),
    Action(
        "park",
        "parked with the headers of their failure",
        "Park failed messages, as they are, in another queue.",
        effects.Park,
        needs=("to_queue",),
    ),
    Action("archive", "archived", "Archive failed messages with a reason.", effects.ToArchive, takes=("reason", "by")),
    Action("delete", "deleted for good", "Delete failed messages for good.", effects.Delete, needs=("confirm",)),
    Action("restore", "restored", "Restore archived messages into their error queue.", effects.Restore, archived=True),
    Action(
        "purge_archive",
        "deleted from the archive for good",
        "Delete archived messages for good.",
        effects.DeleteArchived,
        needs=("confirm",),
        takes=("older_than",),
        archived=True,
    ),
)

ACTIONS = {action.name: action for action in _TABLE}
"""Actions by name. A further one is one more entry, with its effect."""


def action_named(name: str) -> Action:
    """Return an action of :data:`ACTIONS`. Raises :class:`ConfigurationError` for an unknown name."""
    if name not in ACTIONS:
        raise ConfigurationError(
            f"There is no action {quoted(name)} on failed messages: choose from {', '.join(ACTIONS)}."
        )
    return ACTIONS[name]
