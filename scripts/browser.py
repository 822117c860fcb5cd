"""See to the browser that tests and pictures of the page need: Debian's chromium, by apt-get where we may.

Ends well without it, and says so: ``make test-ui`` then skips its tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

INSTALL = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]


def main() -> int:
    if os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser"):
        return 0
    if os.geteuid() == 0 and shutil.which("apt-get"):
        sys.stdout.write("Installing chromium with apt-get ...\n")
        sys.stdout.flush()
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update", "-qq"], INSTALL):
            subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL)
        if shutil.which("chromium"):
            return 0
    sys.stderr.write("chromium is not there: `sudo apt-get install chromium`, or name a browser in CHROMIUM.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
