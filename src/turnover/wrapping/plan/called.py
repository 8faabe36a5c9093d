"""Is a dropout called as a module, or only read as a number?

Attention layers often hold an nn.Dropout just to read its `p`. Replacing such a module would change nothing but lose
the mask. The class that owns the dropout is looked at: it counts as never called if its code mentions the attribute,
and only to read something from it.
"""

import ast
import inspect
import textwrap
from functools import lru_cache

from torch import nn


def is_called(model: nn.Module, path: str) -> bool:
    """Return False where the owner's code only reads attributes of this module, else True."""
    parent_path, _, name = path.rpartition(".")
    parent = model.get_submodule(parent_path)
    mentions = [_mentions(owner, name) for owner in type(parent).__mro__ if owner not in (nn.Module, object)]
    used = any(whole for whole, _ in mentions)
    read = any(parts for _, parts in mentions)
    return used or not read


@lru_cache(maxsize=1024)
def _mentions(owner: type, name: str) -> tuple[bool, bool]:
    """Return whether a class uses `self.name` as a whole, and whether it reads an attribute of it."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):
        return True, False
    whole = parts = False
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_self(node.value, name) and node.attr != "forward":
            inner.add(id(node.value))
            parts = True
    for node in ast.walk(tree):
        if _is_self(node, name) and isinstance(node.ctx, ast.Load) and id(node) not in inner:  # pyright: ignore
            whole = True
    return whole, parts


def _is_self(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
