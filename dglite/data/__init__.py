"""Data sets. Files are looked for locally first, else downloaded and checked."""

from .adapter import AsGraphPredDataset, AsLinkPredDataset, AsNodePredDataset
from .citation import CitationGraphDataset, CiteseerGraphDataset, CoraGraphDataset, PubmedGraphDataset
from .csv_dataset import CSVDataset
from .dataset import DGLDataset
from .karate import KarateClubDataset
from .minigc import MiniGCDataset
from .sbm import SBMMixtureDataset
from .sst import SSTDataset
from .synthetic import BA2MotifDataset, BACommunityDataset, BAShapeDataset, TreeCycleDataset, TreeGridDataset
from .utils import (
    Subset,
    add_node_property_split,
    add_nodepred_split,
    check_sha1,
    download,
    extract_archive,
    get_download_dir,
    load_graphs,
    load_labels,
    load_tensors,
    loadtxt,
    mask_nodes_by_property,
    save_graphs,
    save_tensors,
    split_dataset,
)
from .wikiner import WikiNERDataset

__all__ = [
    "AsGraphPredDataset",
    "AsLinkPredDataset",
    "AsNodePredDataset",
    "BA2MotifDataset",
    "BACommunityDataset",
    "BAShapeDataset",
    "CSVDataset",
    "CitationGraphDataset",
    "CiteseerGraphDataset",
    "CoraGraphDataset",
    "DGLDataset",
    "KarateClubDataset",
    "MiniGCDataset",
    "PubmedGraphDataset",
    "SBMMixtureDataset",
    "SSTDataset",
    "Subset",
    "TreeCycleDataset",
    "TreeGridDataset",
    "WikiNERDataset",
    "add_node_property_split",
    "add_nodepred_split",
    "check_sha1",
    "download",
    "extract_archive",
    "get_download_dir",
    "load_graphs",
    "load_labels",
    "load_tensors",
    "loadtxt",
    "mask_nodes_by_property",
    "save_graphs",
    "save_tensors",
    "split_dataset",
]
