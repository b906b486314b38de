"""The only section of its kind, of all sections of an analysis of tables."""


def only(sections, kind, table=None):
    found = [s for s in sections if s.kind == kind and table in (None, s.table)]
    assert len(found) == 1
    return found[0]
