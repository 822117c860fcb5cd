"""Jobs on drained messages, in plain PySpark: each is a function, and a program of the same name.

Call the function in a notebook or in a task with a session, start the module with ``python -m``, or pass its file to
``spark-submit``. A program prints numbers only: no body and no header's value reaches a log.

====================== ======================================================================
:mod:`.audit`          a batch into a table that is partitioned by batch and day
:mod:`.message_tables` a batch into a table for each message type
:mod:`.replay`         replay of messages from the lake to a queue, each once
====================== ======================================================================
"""
