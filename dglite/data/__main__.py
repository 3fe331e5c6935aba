"""``python -m dglite.data convert``: tables of nodes and edges, of any size, become a graph on disk."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

from ..errors import DGLError
from .tables import Table, convert_tables, estimate_conversion

_OPTIONS = ("id", "source", "target", "features", "categories", "time", "time_unit", "missing")
"""What a table may be followed by."""

_EPILOG = """\
examples:
  python -m dglite.data convert --edges 'follows/*.parquet' --out follows.graph
  python -m dglite.data convert --nodes user=users.parquet --nodes item=items.csv,id=sku,categories=brand+color \\
      --edges user:buys:item=buys/*.parquet,source=uid,target=sku,time=at --out shop.graph --memory 4GB --dry-run
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 1 after an error, which is printed."""
    parser = argparse.ArgumentParser(
        prog="python -m dglite.data", description="Convert tables to a graph on disk: dglite.data.GraphFolder opens it."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    convert = commands.add_parser(
        "convert", description="Convert tables of any size to a folder with a graph.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    files = "FILES[,option=value...]; options are those of dglite.data.Table, lists joined by +"
    convert.add_argument("--nodes", action="append", default=[], metavar="[TYPE=]TABLE", help=f"nodes: {files}")
    convert.add_argument(
        "--edges", action="append", required=True, metavar="[SOURCE:TYPE:TARGET=]TABLE", help="edges: likewise"
    )
    convert.add_argument("--out", required=True, help="the folder to make")
    convert.add_argument("--memory", help='limit such as "4 GB"; by default half of what is free')
    convert.add_argument("--overwrite", action="store_true", help="replace the folder if it is there")
    convert.add_argument("--compress", action="store_true", help="pack the ids of neighbours")
    convert.add_argument("--dry-run", action="store_true", help="say how much memory, disk and time it will take")
    options = parser.parse_args(arguments)
    try:
        return _convert(options)
    except (DGLError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _convert(options: argparse.Namespace) -> int:
    nodes, edges = dict(_typed(text, 1) for text in options.nodes), dict(_typed(text, 3) for text in options.edges)
    if len(nodes) < len(options.nodes) or len(edges) < len(options.edges):
        raise DGLError("a type is given twice; give all of its files as one pattern or folder")
    if (None in edges) != (None in nodes) and nodes:
        raise DGLError("either all of --nodes and --edges say a type, or there is one of each without a type")
    node_tables, edge_tables = (nodes.get(None), edges[None]) if None in edges else (nodes, edges)
    if options.dry_run:
        compress = options.compress
        print(estimate_conversion(node_tables, edge_tables, options.out, memory=options.memory, compress=compress))
        return 0
    start = time.perf_counter()
    choices = {"memory": options.memory, "overwrite": options.overwrite, "compress": options.compress}
    folder = convert_tables(node_tables, edge_tables, options.out, **choices)
    print(f"{folder.path}: {folder.graph.num_nodes():,} nodes, {folder.graph.num_edges():,} edges, "
          f"{time.perf_counter() - start:.1f} s")  # fmt: skip
    return 0


def _typed(text: str, parts: int) -> tuple[Any, Table]:
    """Return the type and the table of an argument such as ``user=users.parquet,id=uid``."""
    files, *options = text.split(",")
    head, equals, tail = files.partition("=")
    key = head.split(":") if equals else [None]
    if equals and len(key) != parts:
        raise DGLError(f"{text!r}: expected {'SOURCE:TYPE:TARGET' if parts == 3 else 'TYPE'}=FILES")
    values: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or name not in _OPTIONS:
            raise DGLError(f"{text!r}: {option!r} is no option; there are {', '.join(_OPTIONS)}")
        values[name] = value.split("+") if name in ("features", "categories") else value
    return tuple(key) if len(key) == 3 else key[0], Table(tail if head and len(files) > len(head) else files, **values)


if __name__ == "__main__":
    sys.exit(main())
