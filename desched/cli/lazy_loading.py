"""Loads modules of commands: for help only the declaration, to run also what the command uses.

What commands use takes seconds to load; help and completion must take a tenth of one. So each
module of `desched.commands` imports what only its `run` needs like this:

    if loaded_to_run(__name__):
        from desched.bootstrap.look import with_look

Where only the declaration is loaded, these names do not exist, so annotations must not be evaluated
(`from __future__ import annotations`). All others who import the module get all of it. In Python
3.15 `lazy from … import …` takes the place of this (PEP 810).
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from desched.bootstrap.annexes import ANNEXES, has_annex
from desched.errors import ConfigurationError

_FOLDER = "desched.commands"
_declarations: set[str] = set()


def loaded_to_run(module: str) -> bool:
    """Whether this module must import everything; false while only its declaration is loaded."""
    return module not in _declarations


def load_declaration(command: str) -> ModuleType:
    """The module of the command with this full name, such as `policy diff`.

    Unless it is loaded already, it is one that nobody else can import.
    """
    name = _module_of(command)
    if name in sys.modules:
        return sys.modules[name]
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name=name)
    module = module_from_spec(spec)
    _declarations.add(name)
    try:
        spec.loader.exec_module(module)
    finally:
        _declarations.remove(name)
    return module


def load_to_run(command: str) -> ModuleType:
    """The whole module of a command.

    Raises:
        ConfigurationError: it needs an annex that this installation leaves out.
    """
    try:
        return import_module(_module_of(command))
    except ModuleNotFoundError as error:
        annex = ".".join((error.name or "").split(".")[:2])
        if annex not in ANNEXES or has_annex(annex):
            raise
        raise ConfigurationError(
            f"This installation leaves out {annex}, which `desched {command}` needs; "
            "use a complete one."
        ) from None


def _module_of(command: str) -> str:
    return f"{_FOLDER}.{command.replace(' ', '_')}"
