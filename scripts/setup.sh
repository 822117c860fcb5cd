#!/bin/sh
# Make the virtual environment $1 with everything the demo and the tests need, and check the system parts.
set -eu

venv=$1
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' || {
    echo "'make setup' takes Python 3.10 to 3.14, which requirements-dev.txt is tried with, and '$python' is $("$python" --version 2>&1): name another with 'make PYTHON=python3.12 ...'." >&2
    exit 1
}

if ! [ -x "$venv/bin/python" ] && ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    rm -rf "$venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
        "$python" -m venv "$venv"
    else
        echo "Python's venv module is missing: run 'sudo apt-get install python3-venv' and try again." >&2
        exit 1
    fi
fi

# Companies add certificates of their own to the system's store; uv's store does not have them.
[ -e /etc/ssl/certs/ca-certificates.crt ] && export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}"

echo "Installing into $venv ..."
# requirements-dev.txt pins every package by its hash. The packages of this repository come last and build with the
# installed ones. pip installs uv first, which installs the others faster.
uv_alone=$(mktemp)
trap 'rm -f "$uv_alone"' EXIT
awk '/^[^ ]/ { wanted = /^uv==/ } wanted' requirements-dev.txt >"$uv_alone"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$uv_alone"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes -r requirements-dev.txt
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-build-isolation --no-deps -e fakemssql -e core -e .
"$venv/bin/python" scripts/system_parts.py
echo "Making an archive of Spark's classes ..."
"$venv/bin/python" scripts/spark_archive.py
