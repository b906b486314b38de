"""The companion runner: trains the models of a grid and fills lookup tables from them.

spec.toml -> configurations -> one process a training -> ledger.jsonl -> table folder. Needs the extra
`train`; nothing outside of the command line imports it.
"""
