"""Makes a failing case smaller while it fails."""

import pyarrow

from cases import Session

# The most attempts for one case.
ATTEMPTS = 600


def smaller_lists(items, least=0):
    """The list without one of its items, for each of them."""
    if len(items) > least:
        for place in reversed(range(len(items))):
            yield items[:place] + items[place + 1:]


def smaller_queries(query):
    if query.union:
        yield query.copy(union=None)
    if query.limit is not None:
        yield query.copy(limit=None, offset=0)
    if query.offset:
        yield query.copy(offset=0)
    if query.order:
        yield query.copy(order=None)
    if query.distinct:
        yield query.copy(distinct=False)
    for where in smaller_lists(query.where):
        yield query.copy(where=where)
    for group in smaller_lists(query.group):
        yield query.copy(group=group)
    for select in smaller_lists(query.select, 1):
        union = query.union and query.union.copy(select=query.union.select[:len(select)])
        yield query.copy(select=select, union=union)
    for joins in smaller_lists(query.joins):
        yield query.copy(joins=joins)
    for place, join in enumerate(query.joins):
        for on in smaller_lists(join.on):
            made = list(query.joins)
            made[place] = type(join)(join.kind, join.relation, on)
            yield query.copy(joins=made)
        if not join.relation.text.startswith("t"):
            made = list(query.joins)
            made[place] = type(join)(join.kind, type(join.relation)("t0", join.relation.alias), join.on)
            yield query.copy(joins=made)
    if not query.source.text.startswith("t"):
        yield query.copy(source=type(query.source)("t0", query.source.alias))


def smaller_sessions(session):
    if session.memory:
        yield Session(session.settings, None)
    for key in session.settings:
        if key != "annulus.joins":
            yield Session({one: value for one, value in session.settings.items() if one != key}, session.memory)


def smaller_tables(tables):
    for name, table in tables.items():
        count = table.rows.num_rows
        part = count
        while part > 0:
            for start in range(0, count, part):
                kept = pyarrow.concat_tables([table.rows.slice(0, start), table.rows.slice(start + part)])
                yield {**tables, name: table.with_rows(kept)}
            part //= 2


def variants(case):
    for query in smaller_queries(case.query):
        yield case.copy(query=query)
    for tables in smaller_tables(case.tables):
        yield case.copy(tables=tables)
    for session in smaller_sessions(case.session):
        yield case.copy(session=session)


def shrink(case, fails):
    """The smallest case found that `fails`."""
    left, progress = ATTEMPTS, True
    while progress and left:
        progress = False
        for variant in variants(case):
            left -= 1
            if fails(variant):
                case, progress = variant, True
                break
            if not left:
                break
    return case
