"""The error queue: what failed and why, and the way back to the queues where it failed."""
