"""Data sets. Files are looked for locally first, else downloaded and verified."""

from .. import hints
from .adapter import AsGraphPredDataset, AsLinkPredDataset, AsNodePredDataset
from .citation import CitationGraphDataset, CiteseerGraphDataset, CoraGraphDataset, PubmedGraphDataset
from .cora_binary import CoraBinary
from .csv_dataset import CSVDataset
from .dataset import DGLDataset
from .fake_news import FakeNewsDataset
from .fraud import FraudAmazonDataset, FraudDataset, FraudYelpDataset
from .gin import GINDataset
from .heterophily import (
    ActorDataset,
    AmazonRatingsDataset,
    ChameleonDataset,
    CornellDataset,
    MinesweeperDataset,
    QuestionsDataset,
    RomanEmpireDataset,
    SquirrelDataset,
    TexasDataset,
    TolokersDataset,
    WisconsinDataset,
)
from .igb import IGBFolder
from .inductive import CLUSTERDataset, LegacyPPIDataset, PATTERNDataset, PPIDataset, ZINCDataset
from .karate import KarateClubDataset
from .knowledge_graph import FB15k237Dataset, FB15kDataset, WN18Dataset
from .long_range import PeptidesFunctionalDataset, PeptidesStructuralDataset
from .minigc import MiniGCDataset
from .movielens import MovieLensDataset
from .node_labels import (
    AmazonCoBuy,
    AmazonCoBuyComputerDataset,
    AmazonCoBuyPhotoDataset,
    Coauthor,
    CoauthorCSDataset,
    CoauthorPhysicsDataset,
    CoraFull,
    CoraFullDataset,
    FlickrDataset,
    RedditDataset,
    WikiCSDataset,
    YelpDataset,
)
from .quantum import QM7bDataset, QM9Dataset, QM9EdgeDataset
from .rdf import AIFBDataset, AMDataset, BGSDataset, MUTAGDataset
from .sbm import SBMMixtureDataset
from .sst import SSTDataset
from .superpixel import CIFAR10SuperPixelDataset, MNISTSuperPixelDataset
from .synthetic import BA2MotifDataset, BACommunityDataset, BAShapeDataset, TreeCycleDataset, TreeGridDataset
from .tables import (
    ROW,
    GraphFolder,
    NodeIds,
    Table,
    convert_tables,
    database_tables,
    estimate_conversion,
    relbench_tables,
)
from .temporal import GDELT, ICEWS18, BitcoinOTC, BitcoinOTCDataset, GDELTDataset, ICEWS18Dataset
from .tu import LegacyTUDataset, TUDataset
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
    "GDELT",
    "ICEWS18",
    "ROW",
    "AIFBDataset",
    "AMDataset",
    "ActorDataset",
    "AmazonCoBuy",
    "AmazonCoBuyComputerDataset",
    "AmazonCoBuyPhotoDataset",
    "AmazonRatingsDataset",
    "AsGraphPredDataset",
    "AsLinkPredDataset",
    "AsNodePredDataset",
    "BA2MotifDataset",
    "BACommunityDataset",
    "BAShapeDataset",
    "BGSDataset",
    "BitcoinOTC",
    "BitcoinOTCDataset",
    "CIFAR10SuperPixelDataset",
    "CLUSTERDataset",
    "CSVDataset",
    "ChameleonDataset",
    "CitationGraphDataset",
    "CiteseerGraphDataset",
    "Coauthor",
    "CoauthorCSDataset",
    "CoauthorPhysicsDataset",
    "CoraBinary",
    "CoraFull",
    "CoraFullDataset",
    "CoraGraphDataset",
    "CornellDataset",
    "DGLDataset",
    "FB15k237Dataset",
    "FB15kDataset",
    "FakeNewsDataset",
    "FlickrDataset",
    "FraudAmazonDataset",
    "FraudDataset",
    "FraudYelpDataset",
    "GDELTDataset",
    "GINDataset",
    "GraphFolder",
    "ICEWS18Dataset",
    "IGBFolder",
    "KarateClubDataset",
    "LegacyPPIDataset",
    "LegacyTUDataset",
    "MNISTSuperPixelDataset",
    "MUTAGDataset",
    "MinesweeperDataset",
    "MiniGCDataset",
    "MovieLensDataset",
    "NodeIds",
    "PATTERNDataset",
    "PPIDataset",
    "PeptidesFunctionalDataset",
    "PeptidesStructuralDataset",
    "PubmedGraphDataset",
    "QM7bDataset",
    "QM9Dataset",
    "QM9EdgeDataset",
    "QuestionsDataset",
    "RedditDataset",
    "RomanEmpireDataset",
    "SBMMixtureDataset",
    "SSTDataset",
    "SquirrelDataset",
    "Subset",
    "TUDataset",
    "Table",
    "TexasDataset",
    "TolokersDataset",
    "TreeCycleDataset",
    "TreeGridDataset",
    "WN18Dataset",
    "WikiCSDataset",
    "WikiNERDataset",
    "WisconsinDataset",
    "YelpDataset",
    "ZINCDataset",
    "add_node_property_split",
    "add_nodepred_split",
    "check_sha1",
    "convert_tables",
    "database_tables",
    "download",
    "estimate_conversion",
    "extract_archive",
    "get_download_dir",
    "load_graphs",
    "load_labels",
    "load_tensors",
    "loadtxt",
    "mask_nodes_by_property",
    "relbench_tables",
    "save_graphs",
    "save_tensors",
    "split_dataset",
]

__getattr__ = hints.names_of(__name__)
