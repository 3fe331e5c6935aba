"""Relational databases as heterogeneous temporal graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq

import dglite
from dglite.data import Table, convert_tables, database_tables, relbench_tables
from dglite.dataloading import DataLoader, NeighborSampler
from dglite.errors import DGLError

CUSTOMERS, PRODUCTS, ORDERS = 40, 25, 600


def shop() -> dict[str, tuple[pd.DataFrame, str | None, dict[str, str], str | None]]:
    """Table, primary key, foreign keys and time of each table of a shop; a tenth of the orders have no customer."""
    rng = np.random.default_rng(0)
    customers = pd.DataFrame({"cid": rng.permutation(1000)[:CUSTOMERS], "age": rng.random(CUSTOMERS), "name": "x"})
    products = pd.DataFrame({"sku": [f"p{i}" for i in rng.permutation(PRODUCTS)], "price": rng.random(PRODUCTS)})
    who = pd.array(rng.choice(customers["cid"], ORDERS), dtype="Int64")
    who[::10] = pd.NA
    when = pd.to_datetime(np.sort(rng.integers(1_600_000_000, 1_700_000_000, ORDERS)), unit="s")
    what = rng.choice(products["sku"], ORDERS)
    orders = pd.DataFrame({"customer": who, "product": what, "count": rng.integers(1, 9, ORDERS), "at": when})
    links = {"customer": "customers", "product": "products"}
    return {
        "customers": (customers, "cid", {}, None),
        "products": (products, "sku", {}, None),
        "orders": (orders, None, links, "at"),
    }


def tables() -> dict[str, Table]:
    return {name: Table(frame, id=key, links=links, time=time) for name, (frame, key, links, time) in shop().items()}


def check(g: dglite.DGLGraph) -> None:
    """Compare with joins by pandas."""
    frames = {name: frame for name, (frame, *_) in shop().items()}
    orders = frames["orders"]
    seconds = torch.from_numpy(orders["at"].to_numpy().astype("datetime64[s]").astype(np.int64))
    assert torch.equal(g.nodes["orders"].data["time"], seconds)
    assert g.nodes["orders"].data["count"].tolist() == orders["count"].tolist()
    assert set(g.nodes["orders"].data) == {"count", "time"}
    assert set(g.nodes["customers"].data) == {"age"}
    for key, other, name in (("customer", "customers", "cid"), ("product", "products", "sku")):
        rows = np.flatnonzero(orders[key].notna())
        owner = pd.Index(frames[other][name]).get_indexer(orders[key].iloc[rows])
        src, dst = g.edges(etype=("orders", f"f2p_{key}", other), order="eid")
        assert (src.tolist(), dst.tolist()) == (rows.tolist(), owner.tolist())
        back, forth = g.edges(etype=(other, f"rev_f2p_{key}", "orders"), order="eid")
        assert (back.tolist(), forth.tolist()) == (owner.tolist(), rows.tolist())
        assert torch.equal(g.edges[f"rev_f2p_{key}"].data["time"], seconds[rows])
    assert g.num_edges("f2p_customer") == ORDERS - ORDERS // 10


def test_agrees_with_joins(tmp_path: Path) -> None:
    check(dglite.from_tables(*database_tables(tables())))
    check(convert_tables(*database_tables(tables()), tmp_path / "g").graph)


def test_sampling_sees_no_row_of_the_future() -> None:
    g = dglite.from_tables(*database_tables(tables()))
    g.nodes["customers"].data["time"] = torch.full((CUSTOMERS,), 1_650_000_000)
    loader = DataLoader(
        g, {"customers": torch.arange(CUSTOMERS)}, NeighborSampler([5, 5], time="time", edge_time="time")
    )
    count = 0
    for _, _, blocks in loader:
        for block in blocks:
            for etype in block.canonical_etypes:
                times = block.edges[etype].data.get("time", torch.empty(0))
                count += len(times)
                assert (times <= 1_650_000_000).all()
    assert count > 100


def saved(folder: Path) -> Path:
    """Write a database as RelBench does."""
    for name, (frame, key, links, time) in shop().items():
        meta = {"fkey_col_to_pkey_table": links, "pkey_col": key, "time_col": time}
        table = pa.Table.from_pandas(frame, preserve_index=False)
        content = {key.encode(): json.dumps(value).encode() for key, value in meta.items()}
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **content}), folder / f"{name}.parquet")
    return folder


def test_relbench(tmp_path: Path) -> None:
    check(dglite.from_tables(*relbench_tables(saved(tmp_path))))


@pytest.mark.parametrize(
    "change, match",
    [
        ({"links": {"customer": "people"}}, "the key 'customer' refers to 'people'; there are"),
        ({"links": {"client": "customers"}}, "table 'orders' has no column 'client'"),
        ({"time": "date"}, "table 'orders' has no column 'date'"),
    ],
)
def test_wrong_keys(change: dict[str, Any], match: str) -> None:
    wrong = tables() | {"orders": Table(shop()["orders"][0], **change)}
    with pytest.raises(DGLError, match=match):
        database_tables(wrong)


def test_a_key_of_no_row() -> None:
    wrong = tables() | {"customers": Table({"cid": [5000]}, id="cid")}
    with pytest.raises(DGLError, match=r"row 1, column 'customer': no node of type 'customers'"):
        dglite.from_tables(*database_tables(wrong))


def test_folders_that_are_no_database(tmp_path: Path) -> None:
    with pytest.raises(DGLError, match="no Parquet files"):
        relbench_tables(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DGLError, match=r"a\.parquet does not say its keys"):
        relbench_tables(tmp_path)
