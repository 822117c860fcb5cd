"""Publishing of events to subscribers, and requests with replies."""
