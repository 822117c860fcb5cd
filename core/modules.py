"""Build hook of the wheel airflow-sqlqueue-core: the modules of airflow_sqlqueue that need no Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OF_AIRFLOW = (
    "assets",
    "decorators",
    "hooks",
    "notifications",
    "operators",
    "plugin",
    "provider_info.py",
    "queues",
    "sensors",
    "triggers",
    "versions/airflow.py",
)
"""Folders and modules of the package that import Airflow, or serve it alone."""


class CoreModules(BuildHookInterface[Any]):
    """Takes the package from the folder beside this one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name each file of the package that goes into the wheel."""
        package = Path(self.root).parent / "airflow_sqlqueue"
        for path in sorted(package.rglob("*")):
            name = path.relative_to(package)
            names = {name.as_posix(), *(parent.as_posix() for parent in name.parents)}
            if path.is_file() and "__pycache__" not in name.parts and names.isdisjoint(OF_AIRFLOW):
                build_data["force_include"][str(path)] = f"{package.name}/{name.as_posix()}"
