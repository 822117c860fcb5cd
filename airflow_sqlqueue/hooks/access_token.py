"""Access tokens of Microsoft Entra ID from an Airflow connection."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook
from airflow.sdk.log import mask_secret

from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.configuration import allowed
from airflow_sqlqueue.hooks.connection_extra import extra_of
from airflow_sqlqueue.hooks.lookups import LOOP, Loop, look_up_from
from airflow_sqlqueue.server.entra import client_token

_TENANT = ("tenantId", "tenant_id", "extra__azure__tenantId")
"""Keys for the tenant in the extra of connections to Azure."""


@dataclass(frozen=True)
class ConnectionToken:
    """Access token of an Airflow connection; each call reads the connection again, and so gets a renewed token.

    With a tenant in the extra, as in connections of type ``azure``, the login is an application's client id and the
    password is the client's secret, for which Entra issues a token; else the password is the token. The connection has
    to be marked as a source of tokens (:meth:`.Allowed.check_token_connection`): the password of any other connection
    is a secret that must not be sent as a token.

    :param conn_id: the connection.
    :param scope: the scope of the token, for Entra.
    :param loop: the event loop of the triggerer, whose threads call this for each new connection.
    """

    conn_id: str
    scope: str
    loop: Loop | None = field(default_factory=LOOP.get, repr=False)

    def __call__(self) -> str:
        """Return a token. Raises LoginFailedError, and :class:`ConfigurationError` for a connection without one."""
        return look_up_from(self.loop, self._token)

    def _token(self) -> str:
        try:
            connection = BaseHook.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            raise ConfigurationError(f"There is no connection {self.conn_id!r} to take access tokens from.") from error
        extra = extra_of(connection)
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
