"""Reaching a server: settings, the ODBC driver, opening a connection, and what its errors mean."""
