"""``python -m fakemssql``: checks that all needed packages are installed before it loads the server."""

from __future__ import annotations

import sys

from fakemssql import check_requirements


def main() -> int:
    try:
        check_requirements()
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    from fakemssql import command

    return command.main()


if __name__ == "__main__":
    sys.exit(main())
