"""``python -m fakemssql``: checks that all packages are there before it loads what needs them."""

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
