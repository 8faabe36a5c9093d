"""The house as ARCHITECTURE.md shows it: borders of folders, what is private, what every folder says of itself."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnover.errors import MissingExtraError

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
FOLDERS = sorted(name for name, path in MODULES.items() if path.name == "__init__.py" and name != "turnover")
# Code beside the package, which must not reach into its folders either.
OUTSIDE = [path for folder in ("bench/turnover_bench", "examples") for path in sorted((ROOT / folder).rglob("*.py"))]


def _imports(path: Path, module: str) -> Iterator[tuple[int, str, str]]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names if alias.name.split(".")[0] == "turnover")
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            target = ".".join([*above, *([node.module] if node.module else [])])
            if target.split(".")[0] == "turnover":
                yield from ((node.lineno, target, alias.name) for alias in node.names)


def _offered(module: str) -> list[str]:
    for node in ast.parse(MODULES[module].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _strings(module: str) -> set[str]:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return {
        node.value.lstrip(".")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _reaches_in(importer: str, target: str) -> bool:
    """Tell whether a target lies deeper than a child of some package that the importer lives in."""
    parents = importer.split(".") if MODULES[importer].name == "__init__.py" else importer.split(".")[:-1]
    parts = target.split(".")
    shared = 0
    while shared < min(len(parents), len(parts)) and parents[shared] == parts[shared]:
        shared += 1
    return len(parts) > shared + 1


@pytest.mark.parametrize("module", MODULES)
def test_code_imports_from_folders_and_only_what_they_offer(module):
    wrong = []
    for line, target, name in _imports(MODULES[module], module):
        if target == "turnover" and module != "turnover" and f"turnover.{name}" not in MODULES:
            wrong.append(f"line {line}: import {name or 'turnover'} from its folder, not from the whole package")
        elif _reaches_in(module, target):
            wrong.append(f"line {line}: {target} is a file of another folder; import from the folder")
        elif target in FOLDERS and not module.startswith(target) and name not in _offered(target):
            wrong.append(f"line {line}: {target} does not offer {name}; see its __all__")
    assert not wrong, "\n".join([module, *wrong])


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_beside_the_package_imports_from_folders(path):
    for line, target, name in _imports(path, "outside"):
        assert target.count(".") < 2 or target == "turnover.ui.web", f"line {line}: import {name} from its folder"
        if target in FOLDERS:
            assert name in _offered(target), f"line {line}: {target} does not offer {name}"


def _has(module, name: str) -> bool:
    try:
        return hasattr(module, name)
    except MissingExtraError:  # it is there for those who have its package
        return True


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_offers_what_exists_and_marks_the_rest_private(folder):
    offered = _offered(folder)
    module = importlib.import_module(folder)
    assert [name for name in offered if not _has(module, name)] == []
    sources = {target for _, target, name in _imports(MODULES[folder], folder) if name in offered}
    sources |= {f"{folder}.{text}" for text in _strings(folder)}  # of names that load lazily
    files = [name for name, path in MODULES.items() if name.rpartition(".")[0] == folder and path.name != "__init__.py"]
    if folder.startswith("turnover.ui"):
        return  # the top floor: nobody imports from its files
    public = [name for name in files if not name.rpartition(".")[2].startswith("_")]
    assert [name for name in public if name not in sources] == [], "offers nothing: begin the name of the file with _"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_lists_its_files(folder):
    text = ast.get_docstring(ast.parse(MODULES[folder].read_text(encoding="utf-8"))) or ""
    children = [name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == folder]
    missing = [child for child in children if f"`{child}" not in text]
    assert not missing, f"the docstring of {folder} does not list {missing}"


def test_one_page_shows_every_folder():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    shown = [(f"`{folder.rpartition('.')[2]}/`", f"`src/{folder.replace('.', '/')}`") for folder in FOLDERS]
    missing = [names for names in shown if not any(name in text for name in names)]
    assert not missing, f"ARCHITECTURE.md does not name {missing}"
    assert len(text.splitlines()) < 100
