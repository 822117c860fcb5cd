"""Airflow connections turned into sessions: the core's and Spark's. Importing this package imports neither."""
