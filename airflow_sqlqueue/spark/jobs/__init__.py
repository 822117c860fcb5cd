"""Jobs on drained messages, in plain PySpark: each is a function of a DataFrame, and a program of the same name.

Call the function in a notebook or in a task with a session, start the module with ``python -m``, or pass its file to
``spark-submit``. A program prints numbers only: no body and no header's value reaches a log.

=================== ==================================================================================
:mod:`.audit`       a batch into a table that is partitioned by batch and day
:mod:`.processing`  processing times of each endpoint, or by other columns
:mod:`.failures`    groups of failures over time
:mod:`.causes`      causes of messages: a table of edges, and a picture
:mod:`.replay`      replay of messages from the lake to a queue, each once
=================== ==================================================================================
"""
