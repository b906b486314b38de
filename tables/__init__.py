"""Tables that ship with the package: data only, one folder a table."""
