"""Names of the files in a table folder. Modules that need only the names do not import `folder.py`."""

DATASHEET = "datasheet.toml"
ROWS = "table.csv"
REPLICATES = "replicates.csv"
CURVES = "curves.csv"
REPLICATE_CURVES = "replicate_curves.csv"
SPEC = "spec.toml"
LEDGER = "ledger.jsonl"
