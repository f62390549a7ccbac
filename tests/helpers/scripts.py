"""The project's scripts as modules: they are in no package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).parents[2] / "scripts"


def load(name: str) -> ModuleType:
    """scripts/NAME.py, run anew; it is also what `import NAME` finds afterwards."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # which dataclasses ask for
    spec.loader.exec_module(module)
    return module
