"""Functions and modules as plain data: their source or bytecode, the globals that they use, and
pinned versions.
"""

import dis
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from forgetless._core.environment import version

LENGTH = 24
"""Hexadecimal digits of a digest: 96 bits, so that even 10⁹ cells do not collide."""


def text_digest(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


@functools.cache
def pinned_version(module: str | None) -> str | None:
    """Return the version that determines the code of a module; None for code of the user's own,
    which may be edited.

    The standard library is determined by Python's version, an installed package by its own. A
    package that is installed in editable mode lies elsewhere and is the user's own.

    Examples
    --------
    >>> from forgetless.sweeps.code import pinned_version
    >>> pinned_version("scipy.linalg").split()[0], pinned_version("__main__")
    ('scipy', None)
    """
    package = (module or "").partition(".")[0]
    if package == "forgetless":
        return f"forgetless {version()}"
    if package in sys.stdlib_module_names:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    if not {"site-packages", "dist-packages"} & set(Path(file).parts):
        return None
    names = _distributions().get(package)
    return f"{names[0]} {importlib.metadata.version(names[0])}" if names else None


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return {
        package: list(names)
        for package, names in importlib.metadata.packages_distributions().items()
    }


def module_of(thing: Any) -> str | None:
    """Return the name of the module that defines a function or class.

    Of a function it is that of its globals: ``functools.wraps`` copies ``__module__`` from the
    wrapped function.
    """
    if isinstance(thing, FunctionType):
        name = thing.__globals__.get("__name__")
        return name if isinstance(name, str) else None
    module = getattr(thing, "__module__", None)
    # a class from ``exec`` has "builtins"
    return module if isinstance(module, str) and module != "builtins" else None


def pinned_reference(thing: Any) -> dict[str, str] | None:
    """Return module, name and version of what an installed package or the standard library holds
    under its own name.

    They determine it. Of this package the name is enough, since its version is part of every key.
    None for all else.
    """
    if isinstance(thing, ModuleType):
        pinned = pinned_version(thing.__name__)
        return None if pinned is None else {"module": thing.__name__, "version": pinned}
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    pinned = pinned_version(module) if isinstance(module, str) and isinstance(name, str) else None
    if pinned is None or getattr(sys.modules.get(str(module)), str(name), None) is not thing:
        return None
    return {"name": str(name)} | (
        {} if pinned.startswith("forgetless ") else {"module": str(module), "version": pinned}
    )


def code_digest(function: FunctionType) -> dict[str, str]:
    """Return digests of the source of a function, and of its bytecode where the source does not
    determine it.
    """
    code = function.__code__
    try:
        # Code without a file, e.g. "<string>": since Python 3.13 inspect finds the source of
        # ``python -c`` for it. Of the code: of a function that wraps another, the source would be
        # the other's, which is in the closure.
        source = (
            "" if code.co_filename.startswith("<") else inspect.cleandoc(inspect.getsource(code))
        )
    except (OSError, TypeError):
        source = ""
    plain = {"source": text_digest(source)} if source else {}
    # the source of a lambda is a whole line, which may hold others
    if not source or code.co_name == "<lambda>":
        plain["code"] = text_digest(repr(_instructions(code)))
    return plain


def _instructions(code: CodeType) -> list[Any]:
    """Return compiled code as plain data, with the functions, classes and comprehensions inside
    it.
    """
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    return [
        code.co_code.hex(),
        counts,
        [list(each) for each in names],
        [_constant(each) for each in code.co_consts],
    ]


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _instructions(value)
    if isinstance(value, tuple):
        return [_constant(each) for each in value]
    if isinstance(value, frozenset):  # whose order differs between processes
        return {"set": sorted((_constant(each) for each in value), key=str)}
    return repr(value)


def globals_of(function: FunctionType) -> dict[str, Any]:
    """Return the global values that a function uses, and the modules that it imports, by name."""
    names, imports = set(), set()
    for code in _nested(function.__code__):
        instructions = list(dis.get_instructions(code))
        for i, each in enumerate(instructions):
            if each.opname == "IMPORT_NAME":  # two instructions after its level
                imports.add("." * int(instructions[i - 2].argval or 0) + each.argval)
            elif each.opname.startswith("LOAD_") and each.opname.endswith(
                ("GLOBAL", "GLOBALS", "NAME")
            ):
                names.add(each.argval)
    space = function.__globals__
    used = {name: space[name] for name in sorted(names & space.keys())}
    return used | {
        f"import {name}": _imported(name, space.get("__package__")) for name in sorted(imports)
    }


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _nested(each)


def _imported(name: str, package: str | None) -> ModuleType | None:
    try:
        return importlib.import_module(importlib.util.resolve_name(name, package))
    except Exception:  # what the function does then is in its source
        return None


def module_source(module: ModuleType) -> str | None:
    """Return the digest of the source file of a module; None without one."""
    try:
        return text_digest(inspect.getsource(module))
    except (OSError, TypeError):
        return None


def own_imports(module: ModuleType) -> list[ModuleType]:
    """Return the user's own modules that a module of the user's own refers to, or has functions and
    classes of.
    """
    names = {
        each.__name__ if isinstance(each, ModuleType) else module_of(each)
        for each in vars(module).values()
        if isinstance(each, ModuleType | FunctionType | type)
    }
    own = sorted(
        name for name in names if name and name != module.__name__ and pinned_version(name) is None
    )
    return [sys.modules[name] for name in own if name in sys.modules]
