"""Names of the files in a table folder. Modules that need only the names do not import `folder.py`."""

DATASHEET = "datasheet.toml"
ROWS = "table.csv"
REPLICATES = "replicates.csv"
CURVES = "curves.csv"
REPLICATE_CURVES = "replicate_curves.csv"
BESIDE = {"replicates": REPLICATES, "curves": CURVES, "replicate_curves": REPLICATE_CURVES}
"""The files beside that of the rows, by the section of the datasheet that describes them."""
SPEC = "spec.toml"
LEDGER = "ledger.jsonl"
