"""Write the tables in the pages of docs/ from the files in results/, so that they cannot drift apart.

python benchmarks/report.py            rewrite the tables
python benchmarks/report.py --check    fail where a table differs from its results
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from statistics import median
from typing import Any

from accuracy import accuracies_table
from attention import steps_table as layers_table
from backends import backends_table
from before_after import changes_table
from billion import billion_table
from cluster import check_table
from cluster import epochs_table as clusters_table
from cluster import rates_table as ranks_rates_table
from common import RESULTS, ROOT
from compile import compile_table
from compile import summary as compile_summary
from cpus import cpus_table
from distributed import batch_bytes_table, cache_table, dgl_table, step_bytes_table
from distributed import memory_table as ranks_memory_table
from dynamic import ablation_table, complete_table, trees_table
from dynamic import steps_table as ways_table
from ed_batch import ed_batch_table
from export import export_table, summary
from first_calls import first_calls_table
from giant import conversions_table, shapes_table
from gpu import show as gpu_kernels_table
from gpu_steps import batches_table as gpu_batches_table
from gpu_steps import steps_table as gpu_steps_table
from gpu_trees import trees_table as gpu_trees_table
from graphbolt import door_table
from graphs import graphs_table
from highlights import highlights_table
from kills import kills_table
from layers import layers_table as convolutions_table
from layers import summary as convolutions_summary
from lazy import lazy_table
from limits import limits_table
from limits import rates_table as machine_rates_table
from memory import attention_table, growth_table
from minibatch import batches_table
from minibatch import memory_table as batches_memory_table
from models import epochs_table, steps_table
from one_tree import one_tree_table
from out_of_core import rates_table
from overhead import calls_table
from projects import notes, projects_table
from projects import summary as projects_summary
from reorder import orders_table
from sampling import cases_table as sampling_table
from scaling import partition_table, scaling_table
from spmm import cases_table, operations_table, summary_table
from sweep import sweep_table
from temporal import temporal_table
from tofu_search import plans_table
from tofu_throughput import throughput_table
from tofu_train import steps_table as partitioned_table
from tofu_zoo import zoo_summary, zoo_table
from udf import pairs_table, sizes_table

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("performance/*.md"))]
"""Those with marks are rewritten."""
ELSEWHERE = {"layers": "layers.md#measured", "dataloading": "dataloading.md#speed-and-accuracy"}
"""Measurements that are not on a page of docs/performance."""


def spmm(results: dict[str, Any]) -> str:
    """Return the geometric means, those of each operation, and all cases folded away."""
    records = results["records"]
    means, cases = f"{summary_table(records)}\n\n{operations_table(records)}", cases_table(records)
    return f"{means}\n\n<details><summary>All {len(records)} cases</summary>\n\n{cases}\n\n</details>"


def spmm_retained(results: dict[str, Any]) -> str:
    """Return the same where malloc keeps its memory."""
    return spmm(results)


def limits(results: dict[str, Any]) -> str:
    """Return the machine's rates, and the share of its limit that each kernel reaches."""
    rates = machine_rates_table(results["rates"], results["peak"], results["exponentials"])
    return f"{rates}\n\n{limits_table(results['records'])}"


def partition(results: dict[str, Any]) -> str:
    """Return how work is shared among more threads than cores."""
    return partition_table(results["records"])


def overhead(results: dict[str, Any]) -> str:
    """Return one row per call."""
    return calls_table(results["records"])


def memory(results: dict[str, Any]) -> str:
    """Return one row per library."""
    size = f"{results['num_nodes']:,} nodes, {results['num_edges']:,} edges, width {results['width']}."
    return f"{size}\n\n{growth_table(results)}"


def sampling(results: dict[str, Any]) -> str:
    """Return one row per case."""
    size = f"A power-law graph of {results['num_nodes']:,} nodes and {results['num_edges']:,} edges."
    return f"{size}\n\n{sampling_table(results['records'])}"


def graphs(results: dict[str, Any]) -> str:
    """Return one row per call."""
    return graphs_table(results["records"])


def models(results: dict[str, Any]) -> str:
    """Return the steps on the random graph, and the epochs on Cora."""
    return f"{steps_table(results['synthetic'])}\n\n{epochs_table(results['cora'])}"


def cpus(results: dict[str, Any]) -> str:
    """Return the main ratios on this CPU and on others."""
    return cpus_table()


def sweep(results: dict[str, Any]) -> str:
    """Return all points folded away: the plots show them."""
    records = results["records"]
    return f"<details><summary>All {len(records)} points</summary>\n\n{sweep_table(records)}\n\n</details>"


def giant(results: dict[str, Any]) -> str:
    """Return one row per shape, and one per conversion."""
    return f"{shapes_table(results)}\n\n{conversions_table(results)}"


def reorder(results: dict[str, Any]) -> str:
    """Return one row per graph and width."""
    return orders_table(results["records"])


def attention_memory(results: dict[str, Any]) -> str:
    """Return one row per library."""
    result = results["attention"]
    heads = f"{result['heads']} heads of {result['head_size']}"
    return f"{result['num_nodes']:,} nodes, {result['num_edges']:,} edges, {heads}.\n\n{attention_table(result)}"


def attention(results: dict[str, Any]) -> str:
    """Return one row per layer."""
    size = f"{results['num_nodes']:,} nodes, {results['num_edges']:,} edges."
    return f"{size}\n\n{layers_table(results['records'])}"


def layers(results: dict[str, Any]) -> str:
    """Return one row per layer."""
    records = results["records"]
    size = f"{results['num_nodes']:,} nodes, {results['num_edges']:,} edges, width {results['width']}."
    return f"{size}\n\n{convolutions_table(records)}\n\n{convolutions_summary(records)}"


def export(results: dict[str, Any]) -> str:
    """Return what was exported in words, and one row per model."""
    records = results["records"]
    return f"{summary(records)} {results['note']}".strip() + f"\n\n{export_table(records)}"


def compiled(results: dict[str, Any]) -> str:
    """Return what was compiled in words, and one row per layer."""
    records = results["records"]
    return f"{compile_summary(records)} {results['note']}".strip() + f"\n\n{compile_table(records)}"


def backends(results: dict[str, Any]) -> str:
    """Return one row per network."""
    return backends_table(results["records"])


def dynamic(results: dict[str, Any]) -> str:
    """Return Tree-LSTMs on a treebank, what a step consists of folded away, optimisations, and complete trees."""
    records = results["tree_lstm"]
    folded = f"<details><summary>What a step consists of</summary>\n\n{ways_table(records)}\n\n</details>"
    parts = [trees_table(records), folded, ablation_table(results["ablation"])]
    return "\n\n".join([*parts, complete_table(results["tree_fc"])])


def ways(results: dict[str, Any]) -> str:
    """Return Tree-LSTMs with states of 256."""
    return trees_table([r for r in results["tree_lstm"] if r["hidden"] == 256])


def one_tree(results: dict[str, Any]) -> str:
    """Return one row for each size of state and way."""
    return one_tree_table(results["records"])


def ed_batch(results: dict[str, Any]) -> str:
    """Return one row for each case, batch size and way of recording."""
    return ed_batch_table(results["records"])


def lazy(results: dict[str, Any]) -> str:
    """Return one row for each model, batch size, number of threads and way of recording."""
    return lazy_table(results)


def minibatch(results: dict[str, Any]) -> str:
    """Return one row per case, number of workers and part, and the memory of GraphSAGE."""
    sizes = results["sizes"]
    size = f"{sizes['num_nodes']:,} nodes, {sizes['num_edges']:,} edges, {sizes['batches']} batches for an epoch."
    without = f" Without PyTorch Geometric: {results['without_pyg']}." if results["without_pyg"] else ""
    parts = [f"{size}{without}", batches_table(results["records"])]
    return "\n\n".join([*parts, *([batches_memory_table(results["memory"])] if results["memory"] else [])])


def through_graphbolt(results: dict[str, Any]) -> str:
    """Return one row per case."""
    return door_table(results["records"])


def accuracy(results: dict[str, Any]) -> str:
    """Return one row per model."""
    return accuracies_table(results["records"])


def out_of_core(results: dict[str, Any]) -> str:
    """Return one row for rows from the disk, and one for rows in the system's cache."""
    size = f"A file of {results['num_rows']:,} rows of {results['width']} float16, {results['rows']:,} read at a time."
    return f"{size} In memory beside it for the cache: {results['cached']:.0%}.\n\n{rates_table(results)}"


def temporal(results: dict[str, Any]) -> str:
    """Return a row for each model and library, after what they were trained on."""
    sizes = "; ".join(
        f"{name}: {size['events']:,} events, {size['epochs']} epochs" for name, size in results["sizes"].items()
    )
    return f"{sizes}.\n\n{temporal_table(results['tasks'])}"


def first_calls(results: dict[str, Any]) -> str:
    """Return how long they take, and all folded away."""
    records = results["records"]
    cold = [record["cold"] for record in records]
    message = f"{len(cold)} calls: {median(cold):.2f} s in the median, {max(cold):.2f} s at most with an empty cache."
    return f"{message}\n\n<details><summary>All</summary>\n\n{first_calls_table(records)}\n\n</details>"


def udf(results: dict[str, Any]) -> str:
    """Return one row per pair of functions, and one per size of the textbook convolution."""
    return f"{pairs_table(results['pairs'])}\n\n{sizes_table(results['sizes'])}"


def before_after(results: dict[str, Any]) -> str:
    """Return the small calls, and what else changed."""
    return changes_table(results)


def tofu_search(results: dict[str, Any]) -> str:
    """Return one row per model and number of workers."""
    return plans_table(results["records"])


def tofu_throughput(results: dict[str, Any]) -> str:
    """Return one row per model."""
    return throughput_table(results["records"])


def tofu_train(results: dict[str, Any]) -> str:
    """Return one row per model and number of processes."""
    return partitioned_table(results["records"])


def tofu_zoo(results: dict[str, Any]) -> str:
    """Return how many models are planned, and one row for each."""
    records = results["records"]
    return f"{zoo_summary(records)}\n\n{zoo_table(records)}"


def tofu_large(results: dict[str, Any]) -> str:
    """Return one row for each model."""
    return zoo_table(results["records"])


def projects(results: dict[str, Any]) -> str:
    """Return the share of tests, one row per code base, and what was run of each."""
    records = results["records"]
    return f"{projects_summary(records)}\n\n{projects_table(records)}\n\n{notes(records)}"


def projects_seen(results: dict[str, Any]) -> str:
    """Return the number of code bases and the share of tests."""
    return f"{len(results['records'])} code bases. {projects_summary(results['records'])}"


def scaling(results: dict[str, Any]) -> str:
    """Return one row per case and number of threads."""
    return scaling_table(results["records"])


def gpu(results: dict[str, Any]) -> str:
    """Return what was reached, and one row for each operation and graph."""
    bandwidth = results["copy bandwidth"]
    means = "; ".join(f"{name}: {value:.2f}" for name, value in results["reached"].items())
    return f"Copies at {bandwidth / 1e9:,.0f} GB/s. {means}.\n\n{gpu_kernels_table(results['rows'], bandwidth)}"


def gpu_steps(results: dict[str, Any]) -> str:
    """Return one row per network, and one per place of the graph that batches are sampled from."""
    parts = [gpu_steps_table(results["steps"]), gpu_batches_table(results["batches"])]
    return "\n\n".join(
        part for part, records in zip(parts, (results["steps"], results["batches"]), strict=True) if records
    )


def gpu_trees(results: dict[str, Any]) -> str:
    """Return one row per size of batch."""
    return f"Trees of {results['trees']}, states of {results['hidden']}.\n\n{gpu_trees_table(results['rows'])}"


def kills(results: dict[str, Any]) -> str:
    """Return one row for each place that a process was killed in."""
    return kills_table(results["records"])


def distributed(results: dict[str, Any]) -> str:
    """Return bytes of batches and of steps on whole graphs, caches, memory of a rank, and DGL's servers."""
    sent, cache, memory = results["bytes"], results["cache"], results["memory"]
    beside = [record for world in ("dgl-2", "dgl-4") if world in results for record in results[world]["records"]]
    size = results["dgl-2"]
    parts = [
        "Bytes that all processes send in an epoch on batches, in MB:",
        batch_bytes_table(sent["batches"]),
        "Bytes that all receive in a step on the whole graph:",
        step_bytes_table(sent["steps"]),
        f"Rows of others that each of {cache['world']} processes keeps, of {cache['nodes']:,} nodes:",
        cache_table(cache["records"]),
        f"Memory of a process; {memory['nodes']:,} nodes, {memory['edges']:,} edges, {memory['width']} features:",
        ranks_memory_table(memory["records"]),
        f"A batch of {size['batch_size']} seeds, sampled and with its features, of {size['nodes']:,} nodes and "
        f"{size['edges']:,} edges; the slowest process:",
        dgl_table(beside),
    ]
    return "\n\n".join(parts)


def cluster(results: dict[str, Any]) -> str:
    """Return the measured rates, the model of batches beside sampled ones, and epochs on papers100M, extrapolated."""
    rates, checks = ranks_rates_table(results["rates"]), check_table(results["batches"])
    folded = f"<details><summary>The model of batches beside sampled batches</summary>\n\n{checks}\n\n</details>"
    epochs = clusters_table(results["epochs"])
    return f"{rates}\n\n{folded}\n\npapers100M, an epoch; all of it extrapolated:\n\n{epochs}"


SECTIONS = (
    (spmm, "spmm"),
    (spmm_retained, "spmm_retained"),
    (limits, "limits"),
    (overhead, "overhead"),
    (memory, "memory"),
    (attention_memory, "memory"),
    (models, "models"),
    (cpus, "spmm"),
    (sweep, "sweep"),
    (giant, "giant"),
    (reorder, "reorder"),
    (attention, "attention"),
    (layers, "layers"),
    (export, "export"),
    (compiled, "compile"),
    (udf, "udf"),
    (first_calls, "first_calls"),
    (graphs, "graphs"),
    (sampling, "sampling"),
    (backends, "backends"),
    (dynamic, "dynamic"),
    (one_tree, "one_tree"),
    (lazy, "lazy"),
    (ed_batch, "ed_batch"),
    (ways, "dynamic"),
    (minibatch, "minibatch"),
    (through_graphbolt, "graphbolt"),
    (accuracy, "accuracy"),
    (out_of_core, "out_of_core"),
    (billion_table, "billion"),
    (temporal, "temporal"),
    (before_after, "before_after"),
    (projects, "projects"),
    (projects_seen, "projects"),
    (scaling, "scaling"),
    (partition, "partition"),
    (gpu, "gpu"),
    (gpu_steps, "gpu_steps"),
    (gpu_trees, "gpu_trees"),
    (kills, "kills"),
    (tofu_search, "tofu_search"),
    (tofu_throughput, "tofu_throughput"),
    (tofu_train, "tofu_train"),
    (tofu_zoo, "tofu_zoo"),
    (tofu_large, "tofu_large"),
    (distributed, "distributed"),
    (cluster, "cluster"),
)
"""What is written between the marks of its name, and from which file."""


def source(machine: dict[str, Any]) -> str:
    """Say what the numbers were measured on."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    gpu = f"{machine['GPU']}, " if "GPU" in machine else ""
    return (
        f"Measured on {machine['date']} at commit {machine['commit']}: {gpu}{machine['processor']}, "
        f"{machine['cores']} cores, {machine['threads']} threads, {machine['system']}, "
        f"Python {machine['python']}, {versions}."
    )


def highlights(page: str, docs: str) -> str:
    """Return a page with the first ten rows replaced; ``docs`` leads from it to docs/."""
    table = highlights_table(lambda name: f"{docs}{ELSEWHERE.get(name, f'performance/{name}.md')}")
    body = f"<!-- begin highlights -->\n{table}\n<!-- end highlights -->"
    return re.sub("<!-- begin highlights -->.*?<!-- end highlights -->", lambda _: body, page, flags=re.DOTALL)


def rendered(page: str, docs: str = "") -> str:
    """Return a page with every table that has results replaced by them."""
    page = highlights(page, docs)
    for section, name in SECTIONS:
        path = RESULTS / f"{name}.json"
        if path.is_file():
            results = json.loads(path.read_text())
            begin, end = f"<!-- begin {section.__name__} -->", f"<!-- end {section.__name__} -->"
            machine = results["attention"]["machine"] if section is attention_memory else results["machine"]
            body = f"{begin}\n{source(machine)}\n\n{section(results)}\n{end}"
            page = re.sub(f"{begin}.*?{end}", lambda _, body=body: body, page, flags=re.DOTALL)
    return page


def main() -> None:
    """Rewrite the pages, or compare them."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--check", action="store_true")
    check = options.parse_args().check
    for path in PAGES:
        page = path.read_text()
        current = rendered(page, "docs/" if path.parent == ROOT else "")
        if current == page:
            continue
        if check:
            sys.exit(f"{path.relative_to(ROOT)} differs from benchmarks/results; run python benchmarks/report.py")
        path.write_text(current)


if __name__ == "__main__":
    main()
