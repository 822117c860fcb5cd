"""Where the messages of a batch go: into files, or into a table beside the queue."""
