"""What several tests need: clients of the server and of the engine, and statements to run on them."""
