"""Rows of a sweep, and the file that they make."""

import csv
import io
import itertools

GRID = [dict(zip(("lr", "layers"), pair, strict=True)) for pair in itertools.product((0.1, 0.01), (2, 4))]


def texts(rows):
    """Rows, which are dictionaries, as a CSV file."""
    file = io.StringIO()
    lines = csv.writer(file)
    lines.writerow(rows[0])
    lines.writerows(row.values() for row in rows)
    return file.getvalue()
