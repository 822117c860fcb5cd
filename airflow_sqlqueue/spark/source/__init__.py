"""The format ``sqlqueue`` of Spark: a Python data source.

``data_source`` and what it is made of define subclasses of PySpark's, so they are imported by ``register`` and on
executors, and by nothing else here.

Source: docs/design.md, "The format sqlqueue".
"""
