"""Names of the files in a table folder. Apart from `folder.py`, so that the runner need not load pandas."""

DATASHEET = "datasheet.toml"
ROWS = "table.csv"
REPLICATES = "replicates.csv"
CURVES = "curves.csv"
SPEC = "spec.toml"
LEDGER = "ledger.jsonl"
