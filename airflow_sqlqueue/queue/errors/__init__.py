"""Error queue: read and group failed messages, and return them to the queues where they failed."""
