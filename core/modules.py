"""Build hook of the wheel airflow-sqlqueue-core: the files that the wheel of the provider leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.core import load_toml


class CoreModules(BuildHookInterface[Any]):
    """Takes the package from the folder beside this one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name each file of the package that goes into the wheel; an editable one has none."""
        if version == "editable":
            return
        root = Path(self.root).parent
        project = load_toml(str(root / "pyproject.toml"))
        of_the_provider = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
        for path in sorted(root.glob("airflow_sqlqueue/**/*")):
            name = path.relative_to(root)
            names = {name.as_posix(), *(parent.as_posix() for parent in name.parents)}
            if path.is_file() and "__pycache__" not in name.parts and names.isdisjoint(of_the_provider):
                build_data["force_include"][str(path)] = name.as_posix()
