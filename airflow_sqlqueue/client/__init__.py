"""Client of one server, without Airflow: notebooks, the hook and the command line use it."""
