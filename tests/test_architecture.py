"""The house: who imports whom, what is not imported, and what no file of it does."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nmt"
FILES = sorted(PACKAGE.rglob("*.py"))

# From top to bottom: a part imports from the lines below its own. Those side by side do not know each other.
LAYERS = [
    {"__main__"},
    {"cli"},
    {"commands", "serve"},
    {"pages"},
    {"loading"},
    {"interop", "documents", "teachers"},
    {"training", "decoding", "evaluation"},
    {"checkpoints"},
    {"data", "models"},
    {"terms"},
    {"distributed"},
    {"device", "config"},
    {"machine"},
    {"files"},
    {"errors"},
]
LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}
# Everything else knows nmt.models.translation_model, so that there may be other architectures: docs/adding-a-model.md.
KNOW_THE_TRANSFORMER = ("nmt.models.build", "nmt.models.transformer", "nmt.interop")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_of(path: Path) -> str:
    """nmt/data/sources/corpus.py → nmt.data.sources.corpus; nmt/data/__init__.py → nmt.data."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in FILES}


@cache
def imports(path: Path, *, everywhere: bool) -> frozenset[str]:
    """Names of modules that a file imports; `from nmt import config` is nmt.config.

    Everywhere, or only what importing the file itself imports: nothing in functions or for type checkers.
    """
    return frozenset(_imports(tree(path), everywhere))


def _imports(node: ast.AST, everywhere: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        of_functions = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        of_checkers = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: name the module in full"
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in MODULES else str(child.module)
        elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case) and (
            everywhere or not (of_functions or of_checkers)
        ):
            yield from _imports(child, everywhere)


def part_of(module: str) -> str:
    """nmt.data.sources.corpus → data; nmt → the empty text."""
    return module.removeprefix("nmt").removeprefix(".").partition(".")[0]


def test_every_part_has_its_layer() -> None:
    assert {part_of(module) for module in MODULES} - {""} == LAYER.keys()


def test_imports_go_down() -> None:
    """In functions and for type checkers too. `nmt` itself holds the version, for anyone, opens the
    translator, and trains."""
    for path in FILES:
        importer = part_of(module_of(path))
        for module in imports(path, everywhere=True):
            if module.partition(".")[0] != "nmt" or module == "nmt":
                continue
            assert module in MODULES, f"{path.name} imports {module}, which is no module"
            imported = part_of(module)
            if importer == "":
                assert imported in ("commands", "config", "data", "decoding", "files", "loading", "terms")
            elif imported != importer:
                down = LAYER[imported] > LAYER[importer]
                assert down, f"{importer} imports {imported}, which is not below it"


def test_few_know_the_transformer() -> None:
    know = {
        module_of(path)
        for path in FILES
        if any(module.startswith("nmt.models.transformer") for module in imports(path, everywhere=True))
    }
    assert "nmt.models.build" in know
    assert [module for module in sorted(know) if not module.startswith(KNOW_THE_TRANSFORMER)] == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {module_of(path): set(imports(path, everywhere=True)) & MODULES - {"nmt"} for path in FILES}
    order = list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError
    assert order.index("nmt.errors") < order.index("nmt.cli.app")


def test_what_is_heavy_or_may_be_missing_is_imported_where_it_is_used() -> None:
    allowed = {
        "nmt.serve": {"fastapi", "prometheus_client", "pydantic", "python_multipart", "starlette", "uvicorn"},
        "nmt.training.triton_loss": {"triton"},
        "nmt.models.transformer.packed_attention_kernels": {"triton"},
        "nmt.models.triton_norm": {"triton"},
        "nmt.decoding.search.beam_kernels": {"triton"},
        "nmt.teachers.client": {"httpx2"},
    }
    never = {"datasets", "pyarrow", "tensorboard", "ctranslate2", "transformers"}.union(*allowed.values())
    for path in FILES:
        found = {module.partition(".")[0] for module in imports(path, everywhere=False)} & never
        of_this = (names for prefix, names in allowed.items() if module_of(path).startswith(prefix))
        assert not found.difference(*of_this), path


def test_few_imports_stand_in_functions() -> None:
    """Only those of optional packages, and of what takes long to load where a command starts without it."""
    functions = [
        node
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    found = {node for function in functions for node in ast.walk(function)}
    assert sum(isinstance(node, ast.Import | ast.ImportFrom) for node in found) <= 64


@pytest.mark.parametrize("module", ["nmt", "nmt.config.schema", "nmt.cli.app"])
def test_settings_and_commands_do_not_load_what_is_heavy(module: str) -> None:
    heavy = ["torch", "numpy", "sentencepiece", "sacrebleu", "datasets", "pyarrow", "safetensors", "fastapi", "uvicorn"]
    script = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["nmt.commands.init", "nmt.commands.init_teacher", "nmt.commands.split"])
def test_commands_on_text_do_not_load_torch(module: str) -> None:
    script = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_what_no_file_does() -> None:
    """Pickle runs what it reads; splitlines cuts at characters that belong in a sentence; one file locks and syncs."""
    for path in FILES:
        assert path.name != "utils.py"
        for node in ast.walk(tree(path)):
            place = f"{path.name}, line {getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not names & {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "*"}, place
                assert "fcntl" not in names or module_of(path) == "nmt.files.atomic", f"{place}: locks by itself"
            if isinstance(node, ast.Attribute):
                assert node.attr != "splitlines", place
                whole = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
                assert whole != "torch.save", place
                # Of other programs' weights, without code: see the keyword below.
                assert whole != "torch.load" or module_of(path) == "nmt.interop.source", place
                writes_by_itself = whole in ("os.fsync", "os.replace", "os.rename")
                assert not writes_by_itself or module_of(path) == "nmt.files.atomic", place
            if isinstance(node, ast.keyword):
                assert node.arg != "allow_pickle" or ast.unparse(node.value) == "False", place
                assert node.arg != "weights_only" or ast.unparse(node.value) == "True", place
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, f"{place}: a bare except"


def test_a_folders_init_holds_at_most_a_docstring() -> None:
    for path in FILES:
        if path.name == "__init__.py" and path.parent != PACKAGE:  # that has the version and `load`: tested below
            assert len(tree(path).body) == (ast.get_docstring(tree(path)) is not None), path


def test_the_packages_own_names() -> None:
    body = tree(PACKAGE / "__init__.py").body
    assert [node.name for node in body if isinstance(node, ast.FunctionDef)] == ["load", "train", "keeps"]
    assigned = [ast.unparse(node.targets[0]) for node in body if isinstance(node, ast.Assign)]
    assert assigned == ["__version__"]


def test_every_folder_is_a_package() -> None:
    for folder in {path.parent for path in FILES}:
        assert (folder / "__init__.py").is_file(), folder


def test_the_listing_of_the_package_is_the_architecture() -> None:
    listed = [path for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    assert {path.name for path in listed if path.is_file()} == {
        "__init__.py", "__main__.py", "device.py", "errors.py", "machine.py", "py.typed",
    }  # fmt: skip
    assert {path.name for path in listed if path.is_dir()} == LAYER.keys() - {"__main__", "device", "errors", "machine"}


def test_each_test_stands_where_what_it_tests_does() -> None:
    tests = Path(__file__).parent
    folders = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_dir()}
    folders |= {Path("scripts"), Path("docs")}
    for path in tests.rglob("test_*.py"):
        assert path.parent == tests or path.relative_to(tests).parent in folders, path
    assert {path.name for path in tests.glob("*.py") if not path.name.startswith("test_")} == {
        "conftest.py",
        "planted_faults.py",
    }


def test_a_file_has_at_most_400_lines() -> None:
    for path in FILES:
        assert path.read_text(encoding="utf-8").count("\n") <= 400, path


def test_a_folder_has_at_most_9400_lines_and_commands_3050() -> None:
    lines = dict.fromkeys(LAYER, 0)
    for path in FILES:
        if part := part_of(module_of(path)):
            lines[part] += path.read_text(encoding="utf-8").count("\n")
    assert max(lines.values()) <= 9_400 and lines["commands"] <= 3_050, lines
