"""What a connection knows of the tables it meets."""
