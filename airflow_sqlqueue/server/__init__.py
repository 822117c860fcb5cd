"""Connections to a server: settings, the ODBC driver, logins, and the translation of the driver's errors."""
