"""`python -m hpobench_nmt` is the command line."""

from hpobench_nmt.cli.main import program

program()
