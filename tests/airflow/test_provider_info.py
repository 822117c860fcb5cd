from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from airflow.sdk import task

import airflow_sqlqueue
from airflow_sqlqueue import operators
from airflow_sqlqueue.hooks.connection import FIELDS
from airflow_sqlqueue.provider_info import get_provider_info
from airflow_sqlqueue.server.entra import _NEEDS

INFO = get_provider_info()


def schema(name: str) -> Any:
    return json.loads(files("airflow").joinpath(name).read_text("utf-8"))


def test_the_provider_info_fits_airflows_schema() -> None:
    jsonschema.validate(INFO, schema("provider_info.schema.json"))


@pytest.mark.parametrize(
    "key",
    ["connection-types", "config", "integrations", "hooks", "operators", "sensors", "triggers", "task-decorators"],
)
def test_each_section_is_what_the_providers_schema_expects(key: str) -> None:
    whole = schema("provider.yaml.schema.json")
    jsonschema.validate(INFO[key], {**whole["properties"][key], "definitions": whole.get("definitions", {})})


def test_every_module_imports_and_no_module_is_left_out() -> None:
    rooms = ("hooks", "operators", "sensors", "triggers")
    named = {module for key in rooms for row in INFO[key] for module in row["python-modules"]}
    for name in named:
        import_module(name)
    root = files(airflow_sqlqueue)
    found = {
        f"{folder}.{file.name.removesuffix('.py')}"
        for folder in rooms
        for file in root.joinpath(folder).iterdir()
        if file.name.endswith(".py") and "\nclass SqlQueue" in file.read_text("utf-8")
    }
    assert {f"airflow_sqlqueue.{name}" for name in found} == named


def test_the_guides_the_logo_and_the_links_of_the_registry_are_there() -> None:
    (integration,) = INFO["integrations"]
    root = Path(airflow_sqlqueue.__file__).parents[1]
    for each in (*integration["how-to-guide"], integration["logo"]):
        assert (root / each[1:]).is_file(), each
    found = [getattr(operators, name) for name in operators.__all__]
    links = {type(link) for operator in found for link in operator.operator_extra_links}
    assert {f"{link.__module__}.{link.__name__}" for link in links} == set(INFO["extra-links"])


def test_every_decorator_is_there_by_its_name() -> None:
    for row in INFO["task-decorators"]:
        module, _, name = row["class-name"].rpartition(".")
        assert callable(getattr(import_module(module), name))
        assert callable(getattr(task, row["name"]))


def test_the_connection_type_names_the_hook_as_the_hook_names_itself() -> None:
    (kind,) = INFO["connection-types"]
    module, _, name = kind["hook-class-name"].rpartition(".")
    hook = getattr(import_module(module), name)
    assert (hook.conn_type, hook.hook_name) == (kind["connection-type"], kind["hook-name"])


def test_the_form_has_every_field_that_the_hook_reads() -> None:
    assert INFO["connection-types"][0]["conn-fields"].keys() == FIELDS


def test_the_form_shows_the_usual_fields_first() -> None:
    (kind,) = INFO["connection-types"]
    behaviour = kind["ui-field-behaviour"]
    assert behaviour["hidden-fields"] == []
    assert behaviour["relabeling"] == {"schema": "Database"}
    assert {"host", "login", "schema"} <= behaviour["placeholders"].keys()
    # Airflow's form opens its own fields and closes each section, which stands where its first field is.
    sections = [field["schema"]["section"] for field in kind["conn-fields"].values()]
    groups = list(dict.fromkeys(sections))
    assert groups[:2] == ["Encryption", "Microsoft Entra ID"]
    assert sections == sorted(sections, key=groups.index)


def test_the_form_requires_no_field_and_sends_only_filled_ones() -> None:
    for field in INFO["connection-types"][0]["conn-fields"].values():
        assert "null" in field["schema"]["type"]
        assert "default" not in field["schema"]


def test_the_form_offers_the_logins_that_the_driver_has() -> None:
    (kind,) = INFO["connection-types"]
    assert set(kind["conn-fields"]["authentication"]["schema"]["enum"]) == _NEEDS.keys() - {"SqlPassword"}


def test_airflows_page_shows_the_form() -> None:
    """In a process of its own, as the API server's: Airflow 3.1 takes the form of hooks that it has not loaded yet."""
    program = (
        "from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService;"
        "print(*[each.model_dump_json() for each in HookMetaService.hook_meta_data() "
        "if each.connection_type == 'sqlqueue'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    shown = json.loads(done.stdout.splitlines()[-1])
    assert shown["extra_fields"].keys() == FIELDS
    assert len(FIELDS) == 23
    encrypt = shown["extra_fields"]["encrypt"]
    assert encrypt["schema"]["enum"] == ["yes", "no", "strict"]
    assert encrypt["schema"]["title"] == "Encrypt"
    assert shown["standard_fields"]["url_schema"]["title"] == "Database"


def test_the_package_registers_it() -> None:
    (entry,) = [e for e in entry_points(group="apache_airflow_provider") if e.value.startswith("airflow_sqlqueue")]
    assert entry.load()()["package-name"] == "airflow-sqlqueue"


def test_airflow_lists_the_provider_and_its_setting(airflow: Any) -> None:
    assert airflow_sqlqueue.__version__ in airflow("providers", "get", "airflow-sqlqueue", "-o", "plain")
    assert "airflow_sqlqueue.hooks.sqlqueue.SqlQueueHook" in airflow("providers", "hooks", "-o", "plain")
    assert airflow("config", "get-value", "sqlqueue", "allow_driver_in_extra").split()[-1] == "False"
