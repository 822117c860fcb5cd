"""Messages and addresses, without I/O: their meaning, their rows, and envelopes for people."""
