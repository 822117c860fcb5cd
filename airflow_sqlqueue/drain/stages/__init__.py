"""Stages: destinations of a batch's messages, files or a table beside the queue."""
