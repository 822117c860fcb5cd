"""Errors of permissions and names. Source: sys.messages, "Database Engine events and errors"."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo


def denied(permission: str, table: TableInfo) -> SqlError:
    """Return the error for a permission on an object."""
    return SqlError(
        229,
        f"The {permission} permission was denied on the object '{table.name}', database '{table.database}',"
        f" schema '{table.schema}'.",
        severity=14,
        state=5,
    )


def denied_in_database(permission: str, database: str) -> SqlError:
    """Return the error for a permission of a database, such as CREATE TABLE."""
    return SqlError(262, f"{permission} permission denied in database '{database}'.", severity=14)


def unalterable_database(name: str) -> SqlError:
    """Return the error of ALTER DATABASE, for a missing database as well as for a missing permission."""
    return SqlError(
        5011,
        f"User does not have permission to alter database '{name}', the database"
        " does not exist, or the database is not in a state that allows access checks.",
        severity=14,
        state=5,
    )


def denied_on_server(permission: str) -> SqlError:
    """Return the error for a permission of the server, such as VIEW SERVER STATE."""
    return SqlError(
        300, f"{permission} permission was denied on object 'server', database 'master'.", severity=14, state=1
    )


def no_permission() -> SqlError:
    """Return the message that follows 262 and 300 if a system view needs the permission."""
    return SqlError(297, "The user does not have permission to perform this action.")


def not_allowed() -> SqlError:
    """Return the error for an action on logins, users or roles."""
    return SqlError(15247, "User does not have permission to perform this action.")


def no_access(login: str, database: str) -> SqlError:
    """Return the error for a database in which the login has no user."""
    return SqlError(
        916,
        f'The server principal "{login}" is not able to access the database "{database}" under the current security'
        " context.",
        severity=14,
    )


def missing(what: str, name: str, action: str = "find", severity: int = 16) -> SqlError:
    """Return the error for a principal, schema or object that does not exist or is not visible."""
    return SqlError(
        15151,
        f"Cannot {action} the {what} '{name}', because it does not exist or you do not have permission.",
        severity=severity,
    )


def no_database(name: str) -> SqlError:
    return SqlError(911, f"Database '{name}' does not exist. Make sure that the name is entered correctly.")


def object_exists(name: str) -> SqlError:
    return SqlError(2714, f"There is already an object named '{name}' in the database.", state=6)


def not_created() -> SqlError:
    return SqlError(1750, "Could not create constraint or index. See previous errors.")


def database_exists(name: str) -> SqlError:
    return SqlError(1801, f"Database '{name}' already exists. Choose a different database name.", state=3)


def missing_argument(procedure: str, parameter: str) -> SqlError:
    return SqlError(
        201, f"Procedure or function '{procedure}' expects parameter '{parameter}', which was not supplied.", state=4
    )


def too_many_arguments(procedure: str) -> SqlError:
    return SqlError(8144, f"Procedure or function {procedure} has too many arguments specified.", state=2)


def no_schema(name: str) -> SqlError:
    return SqlError(
        2760, f'The specified schema name "{name}" either does not exist or you do not have permission to use it.'
    )


def no_object(name: str, state: int = 1, number: int = 1088) -> SqlError:
    return SqlError(
        number,
        f'Cannot find the object "{name}" because it does not exist or you do not have permissions.',
        state=state,
    )


def not_dropped(what: str, name: str, severity: int = 11, state: int = 1) -> SqlError:
    """Return the error of DROP for an object that does not exist or is not visible."""
    return SqlError(
        3701,
        f"Cannot drop the {what} '{name}', because it does not exist or you do not have permission.",
        severity=severity,
        state=state,
    )


def repeated_argument(name: str) -> SqlError:
    return SqlError(8143, f"Parameter '{name}' was supplied multiple times.")


def no_output(name: str) -> SqlError:
    return SqlError(
        8162,
        f'The formal parameter "{name}" was not declared as an OUTPUT parameter, but the actual parameter passed in'
        " requested output.",
        state=2,
    )
