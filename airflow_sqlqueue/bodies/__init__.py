"""Bodies of messages: their text, their fields, and the schemas of message types.

Nothing here imports Spark or Airflow.
"""
