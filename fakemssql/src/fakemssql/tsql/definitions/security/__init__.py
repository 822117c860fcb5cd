"""CREATE, ALTER and DROP of logins, users and roles; GRANT, DENY and REVOKE; who may run which definition."""
