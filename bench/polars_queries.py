"""Runs the queries of TPC-H on Polars, as lines of JSON ask for them: polars_queries.py SETTINGS.

SETTINGS is an object with the folder of the tables (`tables`) and the number of `threads`. A request has the number of the `query`
and a file for the `answer`, in Arrow's IPC format. Polars has no SQL for correlated subqueries, so the queries are written as its
lazy frames, with the validation parameters of the specification. Its optimizer orders filters and columns, not joins: they begin
with the tables that a filter makes small.
"""

import json
import os
import sys
from datetime import date
from pathlib import Path

SETTINGS = json.loads(sys.argv[1]) if __name__ == "__main__" else {"threads": 1, "tables": ""}
# Polars reads it when it is imported.
os.environ["POLARS_MAX_THREADS"] = str(SETTINGS["threads"])

import polars as pl
from polars import col, lit
from serving import answered, serve


class Tables:
    """The tables, by name, as lazy frames."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __getattr__(self, name):
        return pl.scan_parquet(self.folder / name / "*.parquet")


def number(name):
    """A decimal as a float: Polars rounds each product of decimals to the digits of its factors."""
    return col(name).cast(pl.Float64)


def revenue():
    return number("l_extendedprice") * (1 - number("l_discount"))


def q1(t, _):
    charged = revenue() * (1 + number("l_tax"))
    return (
        t.lineitem.filter(col("l_shipdate") <= date(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            col("l_quantity").sum().alias("sum_qty"),
            col("l_extendedprice").sum().alias("sum_base_price"),
            revenue().sum().alias("sum_disc_price"),
            charged.sum().alias("sum_charge"),
            col("l_quantity").mean().alias("avg_qty"),
            col("l_extendedprice").mean().alias("avg_price"),
            col("l_discount").mean().alias("avg_disc"),
            pl.len().alias("count_order"),
        )
        .sort("l_returnflag", "l_linestatus")
    )


def q2(t, _):
    offers = (
        t.region.filter(col("r_name") == "EUROPE")
        .join(t.nation, left_on="r_regionkey", right_on="n_regionkey")
        .join(t.supplier, left_on="n_nationkey", right_on="s_nationkey")
        .join(t.partsupp, left_on="s_suppkey", right_on="ps_suppkey")
        .join(
            t.part.filter((col("p_size") == 15) & col("p_type").str.ends_with("BRASS")),
            left_on="ps_partkey",
            right_on="p_partkey",
        )
    )
    return (
        offers.filter(col("ps_supplycost") == col("ps_supplycost").min().over("ps_partkey"))
        .select("s_acctbal", "s_name", "n_name", col("ps_partkey").alias("p_partkey"), "p_mfgr", "s_address", "s_phone", "s_comment")
        .sort("s_acctbal", "n_name", "s_name", "p_partkey", descending=[True, False, False, False])
        .head(100)
    )


def q3(t, _):
    day = date(1995, 3, 15)
    return (
        t.customer.filter(col("c_mktsegment") == "BUILDING")
        .join(t.orders.filter(col("o_orderdate") < day), left_on="c_custkey", right_on="o_custkey")
        .join(t.lineitem.filter(col("l_shipdate") > day), left_on="o_orderkey", right_on="l_orderkey")
        .group_by("o_orderkey", "o_orderdate", "o_shippriority")
        .agg(revenue().sum().alias("revenue"))
        .select(col("o_orderkey").alias("l_orderkey"), "revenue", "o_orderdate", "o_shippriority")
        .sort("revenue", "o_orderdate", descending=[True, False])
        .head(10)
    )


def q4(t, _):
    late = t.lineitem.filter(col("l_commitdate") < col("l_receiptdate"))
    return (
        t.orders.filter(col("o_orderdate").is_between(date(1993, 7, 1), date(1993, 10, 1), closed="left"))
        .join(late, left_on="o_orderkey", right_on="l_orderkey", how="semi")
        .group_by("o_orderpriority")
        .agg(pl.len().alias("order_count"))
        .sort("o_orderpriority")
    )


def q5(t, _):
    return (
        t.region.filter(col("r_name") == "ASIA")
        .join(t.nation, left_on="r_regionkey", right_on="n_regionkey")
        .join(t.customer, left_on="n_nationkey", right_on="c_nationkey")
        .join(
            t.orders.filter(col("o_orderdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")),
            left_on="c_custkey",
            right_on="o_custkey",
        )
        .join(t.lineitem, left_on="o_orderkey", right_on="l_orderkey")
        .join(t.supplier, left_on=["l_suppkey", "n_nationkey"], right_on=["s_suppkey", "s_nationkey"])
        .group_by("n_name")
        .agg(revenue().sum().alias("revenue"))
        .sort("revenue", descending=True)
    )


def q6(t, _):
    return t.lineitem.filter(
        col("l_shipdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left"),
        col("l_discount").is_between(lit("0.05").str.to_decimal(scale=2), lit("0.07").str.to_decimal(scale=2)),
        col("l_quantity") < 24,
    ).select((number("l_extendedprice") * number("l_discount")).sum().alias("revenue"))


def q7(t, _):
    both = t.nation.filter(col("n_name").is_in(["FRANCE", "GERMANY"])).select("n_nationkey", "n_name")
    return (
        both.rename({"n_name": "cust_nation"})
        .join(t.customer, left_on="n_nationkey", right_on="c_nationkey")
        .join(t.orders, left_on="c_custkey", right_on="o_custkey")
        .join(
            t.lineitem.filter(col("l_shipdate").is_between(date(1995, 1, 1), date(1996, 12, 31))),
            left_on="o_orderkey",
            right_on="l_orderkey",
        )
        .join(
            t.supplier.join(both.rename({"n_name": "supp_nation"}), left_on="s_nationkey", right_on="n_nationkey"),
            left_on="l_suppkey",
            right_on="s_suppkey",
        )
        .filter(col("supp_nation") != col("cust_nation"))
        .group_by("supp_nation", "cust_nation", col("l_shipdate").dt.year().alias("l_year"))
        .agg(revenue().sum().alias("revenue"))
        .sort("supp_nation", "cust_nation", "l_year")
    )


def q8(t, _):
    return (
        t.part.filter(col("p_type") == "ECONOMY ANODIZED STEEL")
        .join(t.lineitem, left_on="p_partkey", right_on="l_partkey")
        .join(
            t.orders.filter(col("o_orderdate").is_between(date(1995, 1, 1), date(1996, 12, 31))),
            left_on="l_orderkey",
            right_on="o_orderkey",
        )
        .join(t.customer, left_on="o_custkey", right_on="c_custkey")
        .join(
            t.nation.join(t.region.filter(col("r_name") == "AMERICA"), left_on="n_regionkey", right_on="r_regionkey", how="semi"),
            left_on="c_nationkey",
            right_on="n_nationkey",
            how="semi",
        )
        .join(t.supplier, left_on="l_suppkey", right_on="s_suppkey")
        .join(t.nation.select("n_nationkey", "n_name"), left_on="s_nationkey", right_on="n_nationkey")
        .select(col("o_orderdate").dt.year().alias("o_year"), revenue().alias("volume"), "n_name")
        .group_by("o_year")
        .agg((col("volume").filter(col("n_name") == "BRAZIL").sum() / col("volume").sum()).alias("mkt_share"))
        .sort("o_year")
    )


def q9(t, _):
    return (
        t.part.filter(col("p_name").str.contains("green", literal=True))
        .join(t.partsupp, left_on="p_partkey", right_on="ps_partkey")
        .join(t.supplier, left_on="ps_suppkey", right_on="s_suppkey")
        .join(t.nation, left_on="s_nationkey", right_on="n_nationkey")
        .join(t.lineitem, left_on=["p_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"])
        .join(t.orders, left_on="l_orderkey", right_on="o_orderkey")
        .group_by(col("n_name").alias("nation"), col("o_orderdate").dt.year().alias("o_year"))
        .agg((revenue() - number("ps_supplycost") * number("l_quantity")).sum().alias("sum_profit"))
        .sort("nation", "o_year", descending=[False, True])
    )


def q10(t, _):
    keys = ["c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment"]
    return (
        t.orders.filter(col("o_orderdate").is_between(date(1993, 10, 1), date(1994, 1, 1), closed="left"))
        .join(t.lineitem.filter(col("l_returnflag") == "R"), left_on="o_orderkey", right_on="l_orderkey")
        .group_by(col("o_custkey").alias("c_custkey"))
        .agg(revenue().sum().alias("revenue"))
        .join(t.customer, on="c_custkey")
        .join(t.nation, left_on="c_nationkey", right_on="n_nationkey")
        .select(*keys[:2], "revenue", *keys[2:])
        .select("c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment")
        .sort("revenue", descending=True)
        .head(20)
    )


def q11(t, scale):
    value = col("ps_supplycost") * col("ps_availqty")
    german = (
        t.nation.filter(col("n_name") == "GERMANY")
        .join(t.supplier, left_on="n_nationkey", right_on="s_nationkey")
        .join(t.partsupp, left_on="s_suppkey", right_on="ps_suppkey")
    )
    return (
        german.group_by("ps_partkey")
        .agg(value.sum().alias("value"))
        .filter(col("value").cast(pl.Float64) > col("value").sum().cast(pl.Float64) * (0.0001 / scale))
        .sort("value", descending=True)
    )


def q12(t, _):
    urgent = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    return (
        t.lineitem.filter(
            col("l_shipmode").is_in(["MAIL", "SHIP"]),
            col("l_commitdate") < col("l_receiptdate"),
            col("l_shipdate") < col("l_commitdate"),
            col("l_receiptdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left"),
        )
        .join(t.orders, left_on="l_orderkey", right_on="o_orderkey")
        .group_by("l_shipmode")
        .agg(urgent.sum().alias("high_line_count"), (~urgent).sum().alias("low_line_count"))
        .sort("l_shipmode")
    )


def q13(t, _):
    orders = t.orders.filter(~col("o_comment").str.contains("special.*requests"))
    return (
        t.customer.join(orders, left_on="c_custkey", right_on="o_custkey", how="left")
        .group_by("c_custkey")
        .agg(col("o_orderkey").count().alias("c_count"))
        .group_by("c_count")
        .agg(pl.len().alias("custdist"))
        .sort("custdist", "c_count", descending=True)
    )


def q14(t, _):
    return (
        t.lineitem.filter(col("l_shipdate").is_between(date(1995, 9, 1), date(1995, 10, 1), closed="left"))
        .join(t.part, left_on="l_partkey", right_on="p_partkey")
        .select(revenue().alias("volume"), col("p_type").str.starts_with("PROMO").alias("is_promo"))
        .select((100 * col("volume").filter("is_promo").sum() / col("volume").sum()).alias("promo_revenue"))
    )


def q15(t, _):
    totals = (
        t.lineitem.filter(col("l_shipdate").is_between(date(1996, 1, 1), date(1996, 4, 1), closed="left"))
        .group_by("l_suppkey")
        .agg(revenue().sum().alias("total_revenue"))
    )
    return (
        totals.filter(col("total_revenue") == col("total_revenue").max())
        .join(t.supplier, left_on="l_suppkey", right_on="s_suppkey")
        .select(col("l_suppkey").alias("s_suppkey"), "s_name", "s_address", "s_phone", "total_revenue")
        .sort("s_suppkey")
    )


def q16(t, _):
    complained = t.supplier.filter(col("s_comment").str.contains("Customer.*Complaints"))
    return (
        t.part.filter(
            col("p_brand") != "Brand#45",
            ~col("p_type").str.starts_with("MEDIUM POLISHED"),
            col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9]),
        )
        .join(t.partsupp, left_on="p_partkey", right_on="ps_partkey")
        .join(complained, left_on="ps_suppkey", right_on="s_suppkey", how="anti")
        .group_by("p_brand", "p_type", "p_size")
        .agg(col("ps_suppkey").n_unique().alias("supplier_cnt"))
        .sort("supplier_cnt", "p_brand", "p_type", "p_size", descending=[True, False, False, False])
    )


def q17(t, _):
    wanted = t.part.filter(col("p_brand") == "Brand#23", col("p_container") == "MED BOX")
    lines = wanted.join(t.lineitem, left_on="p_partkey", right_on="l_partkey").select("p_partkey", "l_quantity", "l_extendedprice")
    least = 0.2 * col("l_quantity").cast(pl.Float64).mean().over("p_partkey")
    few = lines.filter(col("l_quantity").cast(pl.Float64) < least)
    return few.select((col("l_extendedprice").sum().cast(pl.Float64) / 7.0).alias("avg_yearly"))


def q18(t, _):
    large = t.lineitem.group_by("l_orderkey").agg(col("l_quantity").sum().alias("quantity")).filter(col("quantity") > 300)
    return (
        large.join(t.orders, left_on="l_orderkey", right_on="o_orderkey")
        .join(t.customer, left_on="o_custkey", right_on="c_custkey")
        .select("c_name", col("o_custkey").alias("c_custkey"), col("l_orderkey").alias("o_orderkey"), "o_orderdate", "o_totalprice", "quantity")
        .sort("o_totalprice", "o_orderdate", descending=[True, False])
        .head(100)
    )


def q19(t, _):
    def kind(brand, containers, quantity, size):
        sizes = col("p_size").is_between(1, size)
        quantities = col("l_quantity").is_between(quantity, quantity + 10)
        return (col("p_brand") == brand) & col("p_container").is_in(containers) & quantities & sizes

    lines = t.lineitem.filter(col("l_shipmode").is_in(["AIR", "AIR REG"]), col("l_shipinstruct") == "DELIVER IN PERSON")
    kinds = (
        kind("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 1, 5)
        | kind("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10)
        | kind("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 20, 15)
    )
    return lines.join(t.part, left_on="l_partkey", right_on="p_partkey").filter(kinds).select(revenue().sum().alias("revenue"))


def q20(t, _):
    sold = (
        t.lineitem.filter(col("l_shipdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left"))
        .group_by("l_partkey", "l_suppkey")
        .agg((col("l_quantity").sum().cast(pl.Float64) * 0.5).alias("half"))
    )
    offers = (
        t.part.filter(col("p_name").str.starts_with("forest"))
        .join(t.partsupp, left_on="p_partkey", right_on="ps_partkey")
        .join(sold, left_on=["p_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"])
        .filter(col("ps_availqty") > col("half"))
    )
    return (
        t.nation.filter(col("n_name") == "CANADA")
        .join(t.supplier, left_on="n_nationkey", right_on="s_nationkey")
        .join(offers, left_on="s_suppkey", right_on="ps_suppkey", how="semi")
        .select("s_name", "s_address")
        .sort("s_name")
    )


def q21(t, _):
    several = t.lineitem.group_by("l_orderkey").agg(col("l_suppkey").n_unique().alias("suppliers")).filter(col("suppliers") > 1)
    late = t.lineitem.filter(col("l_receiptdate") > col("l_commitdate")).select("l_orderkey", "l_suppkey")
    alone = late.group_by("l_orderkey").agg(col("l_suppkey").n_unique().alias("late")).filter(col("late") == 1)
    return (
        t.nation.filter(col("n_name") == "SAUDI ARABIA")
        .join(t.supplier, left_on="n_nationkey", right_on="s_nationkey")
        .join(late, left_on="s_suppkey", right_on="l_suppkey")
        .join(t.orders.filter(col("o_orderstatus") == "F"), left_on="l_orderkey", right_on="o_orderkey", how="semi")
        .join(several, on="l_orderkey", how="semi")
        .join(alone, on="l_orderkey", how="semi")
        .group_by("s_name")
        .agg(pl.len().alias("numwait"))
        .sort("numwait", "s_name", descending=[True, False])
        .head(100)
    )


def q22(t, _):
    customers = t.customer.with_columns(col("c_phone").str.slice(0, 2).alias("cntrycode")).filter(
        col("cntrycode").is_in(["13", "31", "23", "29", "30", "18", "17"])
    )
    mean = customers.filter(col("c_acctbal") > 0).select(col("c_acctbal").cast(pl.Float64).mean().alias("mean"))
    return (
        customers.join(mean, how="cross")
        .filter(col("c_acctbal").cast(pl.Float64) > col("mean"))
        .join(t.orders, left_on="c_custkey", right_on="o_custkey", how="anti")
        .group_by("cntrycode")
        .agg(pl.len().alias("numcust"), col("c_acctbal").sum().alias("totacctbal"))
        .sort("cntrycode")
    )


def run(tables, scale, request):
    query = globals().get(f"q{request['query']}")
    engine = "streaming" if request.get("streaming") else "auto"
    return answered(request, lambda: query(tables, scale).collect(engine=engine).to_arrow(), pl.exceptions.PolarsError)


def main():
    tables = Tables(SETTINGS["tables"])
    serve(lambda request: run(tables, SETTINGS["scale"], request))


if __name__ == "__main__":
    main()
