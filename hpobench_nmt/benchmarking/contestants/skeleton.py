"""The file from which a user's own method starts."""

from __future__ import annotations

import keyword
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import create_file, no_folder
from hpobench_nmt.methods import KNOWN

# A method of Python in which {file} and {name} stand for its file and its class.
_TEMPLATE = Path(__file__).with_name("own_method.py.template")


def write_skeleton(path: Path) -> str:
    """Write a working method to a new Python file, and return its spec, "FILE.py:CLASS".

    The class is named after the file: my_method.py has MyMethod.

    Raises:
        InputError: the file exists, its folder does not exist, or its name is not valid for a module or gives
            the class the name of a method of this package.
        RunError: the file cannot be written.
    """
    name = "".join(part[:1].upper() + part[1:] for part in path.stem.split("_"))
    named = path.stem.isidentifier() and name.isidentifier() and not keyword.iskeyword(name)
    if path.suffix != ".py" or not named:
        raise InputError(f"{path}: the file of a method needs a name such as my_method.py.")
    if taken := {known.casefold(): known for known in KNOWN}.get(name.casefold()):
        raise InputError(f"{path}: class {name} would be named like the method {taken}. Give another name.")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: {no_folder(path.parent)}.")
    create_file(path, _TEMPLATE.read_text("utf-8").format(file=path, name=name))
    return f"{path}:{name}"
