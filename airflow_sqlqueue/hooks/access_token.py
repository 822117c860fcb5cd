"""Access tokens of Microsoft Entra ID that an Airflow connection gives."""

from __future__ import annotations

from dataclasses import dataclass

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.configuration import allowed
from airflow_sqlqueue.server.entra import client_token

_TENANT = ("tenantId", "tenant_id", "extra__azure__tenantId")
"""How connections to Azure name their tenant in the extra."""


@dataclass(frozen=True)
class ConnectionToken:
    """The token of an Airflow connection, which is read anew each time: whoever renews it there renews it here.

    With a tenant in its extra, as connections of type ``azure`` have, its login is an application's client id and its
    password the client's secret, for which Entra gives a token; else its password is the token. It has to be one that
    says that it gives tokens (:meth:`.Allowed.check_token_connection`): any other password is another's secret.

    :param conn_id: the connection.
    :param scope: what the token has to be for.
    """

    conn_id: str
    scope: str

    def __call__(self) -> str:
        """A token. Raises :class:`ConfigurationError` for a connection that may give none, and LoginFailedError."""
        try:
            connection = BaseHook.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            raise ConfigurationError(f"There is no connection {self.conn_id!r} to take access tokens from.") from error
        extra = connection.extra_dejson
        allowed().check_token_connection(self.conn_id, extra)
        tenant = next((extra[name] for name in _TENANT if extra.get(name)), None)
        if not connection.password or (tenant and not connection.login):
            raise ConfigurationError(
                f"The connection {self.conn_id!r} gives no access token: set its password to one, or tenantId in its "
                "extra, and login and password to a client id and its secret."
            )
        token = connection.password
        if tenant:
            token = client_token(str(tenant), str(connection.login), connection.password, self.scope)
        mask_secret(token)
        return token
