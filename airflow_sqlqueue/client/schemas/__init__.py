"""Schemas of message types for a team: files that people review, made from the messages of a batch."""
