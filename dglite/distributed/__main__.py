"""``python -m dglite.distributed``: partition a graph file, verify a partition, start the ranks of a job."""

from __future__ import annotations

import argparse
import sys

from ..errors import DGLError
from ..io import load_graphs
from .config import PartConfig
from .launch import add_arguments, launch
from .partition import partition_graph
from .scratch import graph_of_edge_file


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return 0, or 1 where it failed."""
    parser = argparse.ArgumentParser(prog="python -m dglite.distributed", description=__doc__)
    commands = parser.add_subparsers(dest="verb", required=True)
    cut = commands.add_parser("partition", help="cut a graph that dglite.save_graphs wrote, or edges that NumPy did")
    cut.add_argument(
        "graph", help="file of graphs, of which the first is cut; or NAME.npy, edges: integers of shape (2, num_edges)"
    )
    cut.add_argument("out", help="folder for the parts")
    cut.add_argument("--name", default="graph", help="name of the files")
    cut.add_argument("--parts", type=int, required=True, help="one for each process")
    cut.add_argument("--method", default="metis", help="metis, locality or random")
    cut.add_argument("--hops", type=int, default=1, help="hops of the halo that are listed")
    cut.add_argument("--balance-edges", action="store_true", help="like numbers of in-edges, too")
    check = commands.add_parser("verify", help="compare all files of a partition with what was written")
    check.add_argument("config", help="the JSON file")
    start = commands.add_parser("launch", help="start the ranks of a script on the machines of ip_config")
    add_arguments(start)
    options = parser.parse_args(arguments)
    try:
        if options.verb == "launch":
            return launch(options)
        if options.verb == "partition":
            if options.graph.endswith(".npy"):
                g = graph_of_edge_file(options.graph, options.out)
            else:
                (g,), _ = load_graphs(options.graph, [0], mmap=True)
            partition_graph(
                g,
                options.name,
                options.parts,
                options.out,
                options.hops,
                options.method,
                balance_edges=options.balance_edges,
            )
        else:
            config = PartConfig.read(options.config)
            for name in config.files:
                config.verify(name)
            print(config.table())
            print(f"{len(config.files)} files are as they were written")
    except DGLError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
