"""The only section of its kind, of an analysis of tables."""

from hpobench_nmt.analysis.tables.sections import analyze_tables


def only(sections, kind, table=None):
    found = [s for s in sections if s.kind == kind and table in (None, s.table)]
    assert len(found) == 1
    return found[0]


def section_of(kind, *tables, **options):
    """Without the other kinds of sections, which take longer."""
    return only(analyze_tables(tables, kinds=[kind], **options), kind)
