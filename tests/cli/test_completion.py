"""What the shells get to complete, where folders and datasheets have hostile names."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from hpobench_nmt.cli.completion import completing, removable_names, table_names
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder

HOSTILE = ["$(touch pwned)", "`touch pwned`", "a;touch pwned", "a b", "x\nplain,touch pwned", "-rf", "~", "*"]


@pytest.fixture
def hostile_home(toy_home):
    """Folders with such names among the tables, and a collection that a datasheet claims."""
    tables = toy_home / "tables"
    for name in HOSTILE:
        shutil.copytree(tables / "toy-missing", tables / name)
    toy = load_folder(tables / "toy")
    save_folder(replace(toy, claims={"collection": "$(touch pwned-by-a-claim)"}), tables / "toy")
    return toy_home


def test_names_that_act_in_a_shell_are_not_offered(hostile_home):
    assert set(HOSTILE) < set(table_names())
    assert "$(touch pwned-by-a-claim)" in set(table_names())
    for names in (table_names, removable_names):
        for typed in ("", "$", "`", "a", "x", "-", "~", "*"):
            offered = completing(names)(None, None, typed)
            assert not {name for name in offered if "touch" in name or name in HOSTILE}, offered
        assert completing(names)(None, None, "to") == ["toy", "toy-missing"]
        assert completing(names)(None, None, "toy,toy-") == ["toy,toy-missing"]


SCRIPTS = {
    "bash": """
eval "$(_HPOBENCH_NMT_COMPLETE=bash_source hpobench-nmt)"
COMP_WORDS=(hpobench-nmt tables show "$1"); COMP_CWORD=3
_hpobench_nmt_completion hpobench-nmt
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "fish": """
_HPOBENCH_NMT_COMPLETE=fish_source hpobench-nmt | source
complete -C "hpobench-nmt tables show $argv[1]"
""",
    "zsh": """
autoload -Uz compinit; compinit -D
compadd() { printf '%s\\n' "${(@P)@[-1]}" }
_describe() { printf '%s\\n' "${(@P)3}" }
compdef() { : }
eval "$(_HPOBENCH_NMT_COMPLETE=zsh_source hpobench-nmt)"
words=(hpobench-nmt tables show "$1"); CURRENT=4
_hpobench_nmt_completion
""",
}


@pytest.mark.parametrize("shell", [pytest.param(s, marks=pytest.mark.hosts) for s in SCRIPTS])
def test_the_shells_themselves(hostile_home, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "bin" / "hpobench-nmt"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hpobench_nmt "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(SCRIPTS[shell])
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for typed, offered in (("to", ["toy", "toy-missing"]), ("a", []), ("x", [])):
        done = subprocess.run(
            [shell, str(script), typed], env=os.environ | path, capture_output=True, text=True, timeout=60
        )
        assert done.stderr == ""
        assert sorted({line.split("\t")[0] for line in done.stdout.split("\n") if line}) == offered
    assert not list(tmp_path.rglob("pwned*"))
