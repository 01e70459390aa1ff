"""Prints how DuckDB orders the values of each pair of types in values.txt, for orders.txt.

Usage: python orders.py >orders.txt, with duckdb 2.0.1. A line has two columns, and for each value of the first a
word with a letter for each value of the second: < = > for the order, or `error`. `exact` stands before the order of
numbers that DuckDB cannot convert, as Python's decimals have it."""

import pathlib
from decimal import Decimal

import duckdb


def values(line):
    column, duck, _, listed = (part.strip() for part in line.split(" | "))
    return column, duck, [value.strip().strip("'") for value in listed.split(",")]


def order(less, equal, not_more, between):
    assert not_more == (less or equal) and between == equal, "DuckDB's operators agree"
    return "=" if equal else "<" if less else ">"


def exact(of_left, of_right):
    try:
        left, right = [Decimal(value) for value in of_left], [Decimal(value) for value in of_right]
    except ArithmeticError:
        return ["error"]
    return ["exact"] + ["".join(order(a < b, a == b, a <= b, b <= a <= b) for b in right) for a in left]


def main():
    lines = pathlib.Path(__file__).with_name("values.txt").read_text().splitlines()
    columns = [values(line) for line in lines if not line.startswith("#")]
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    for column, data_type, listed in columns:
        rows = ", ".join(f"({place}, CAST('{value}' AS {data_type}))" for place, value in enumerate(listed))
        duck.execute(f"CREATE TABLE {column} AS SELECT * FROM (VALUES {rows}) AS t (i, v)")
    for number, (left, _, of_left) in enumerate(columns):
        for right, _, of_right in columns[number:]:
            query = f"""SELECT l.i, l.v < r.v, l.v = r.v, l.v <= r.v, l.v BETWEEN r.v AND r.v
                FROM "{left}" l, "{right}" r ORDER BY l.i, r.i"""
            try:
                found = [order(*row[1:]) for row in duck.execute(query).fetchall()]
                words = ["".join(found[place : place + len(of_right)]) for place in range(0, len(found), len(of_right))]
                print(left, right, *words)
            except duckdb.ConversionException:
                print(left, right, *exact(of_left, of_right))
            except duckdb.Error:
                print(left, right, "error")


main()
