"""Graphs of molecules, from SMILES and from RDKit: an edge each way for each bond, and the features of OGB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from ..arguments import explained
from ..backend import active
from ..errors import DGLError
from ..graph import DGLGraph
from ..progress import progress
from .edges import graph

_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
_HYBRIDIZATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_BOND = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")

ATOM_FEATURES = {
    "atomic number - 1": (range(1, 119), lambda atom: atom.GetAtomicNum()),
    "chirality": (_CHIRALITY, lambda atom: str(atom.GetChiralTag())),
    "degree": (range(11), lambda atom: atom.GetTotalDegree()),
    "formal charge + 5": (range(-5, 6), lambda atom: atom.GetFormalCharge()),
    "hydrogens": (range(9), lambda atom: atom.GetTotalNumHs()),
    "radical electrons": (range(5), lambda atom: atom.GetNumRadicalElectrons()),
    "hybridization": (_HYBRIDIZATION, lambda atom: str(atom.GetHybridization())),
    "aromatic": ((False, True), lambda atom: atom.GetIsAromatic()),
    "in a ring": ((False, True), lambda atom: atom.IsInRing()),
}
"""The columns of ``ndata['feat']``: the values that are counted from 0, and what reads them. Others have the number
after the last, so column i of an embedding needs ``len(values) + 1`` rows."""
BOND_FEATURES = {
    "bond type": (_BOND, lambda bond: str(bond.GetBondType())),
    "stereo": (_STEREO, lambda bond: str(bond.GetStereo())),
    "conjugated": ((False, True), lambda bond: bond.GetIsConjugated()),
}
"""The columns of ``edata['feat']``, likewise."""


@overload
def from_smiles(  # type: ignore[overload-overlap]
    smiles: str, with_hydrogen: bool = ..., kekulize: bool = ...
) -> DGLGraph: ...
@overload
def from_smiles(smiles: Sequence[str], with_hydrogen: bool = ..., kekulize: bool = ...) -> list[DGLGraph]: ...
@explained
def from_smiles(smiles: Any, with_hydrogen: bool = False, kekulize: bool = False) -> Any:
    """Return the graph of a molecule that is written as SMILES, or a list of graphs for a list of molecules.

    Needs RDKit (``pip install rdkit``). Features are those of :func:`from_rdkit`, which say for atoms and bonds what
    OGB's do; ``dglite.batch`` makes one graph of the list.

    Raises DGLError: RDKit cannot read a string as a molecule; it is named, with its place in the list; ImportError:
    RDKit is not installed.

    Parameters
    ----------
    smiles
        A SMILES string, or several: a list, an array or a column of a table.
    with_hydrogen
        Give hydrogens nodes of their own.
    kekulize
        Write aromatic bonds as single and double ones.

    Examples
    --------
    >>> import dglite
    >>> g = dglite.from_smiles("CCO")  # doctest: +SKIP
    >>> g.num_nodes(), g.num_edges(), g.ndata["feat"][:, 0] + 1  # doctest: +SKIP
    (3, 4, tensor([6, 6, 8]))
    """
    if isinstance(smiles, str):
        return _parsed(smiles, "", with_hydrogen, kekulize)
    if not isinstance(smiles, Iterable):
        raise DGLError(f"smiles must be a string or a list of strings, got {type(smiles).__name__}")
    rows = enumerate(progress(smiles, "read molecules", "molecule"))
    return [_parsed(text, f"molecule {i} of the list: ", with_hydrogen, kekulize) for i, text in rows]


def from_rdkit(molecule: Any) -> DGLGraph:
    """Return the graph of a molecule of RDKit: a node for each atom, in its order, an edge each way for each bond.

    Edges 2 i and 2 i + 1 are bond i. A molecule without bonds gives a graph without edges.

    ``ndata['feat']`` is (num_atoms, 9), int64: atomic number - 1, chirality (0 unspecified, 1 clockwise, 2
    counter-clockwise, 3 other), degree with hydrogens, formal charge + 5, number of hydrogens, number of radical
    electrons, hybridization (0 to 4: sp, sp2, sp3, sp3d, sp3d2), whether it is aromatic, whether it is in a ring.
    ``edata['feat']`` is (num_edges, 3), int64: bond type (0 to 3: single, double, triple, aromatic), stereo (0 to 5:
    none, Z, E, cis, trans, any), whether it is conjugated. Anything else has the number after the last. These are OGB's
    features (Hu et al., "Open Graph Benchmark", 2020), so models for ``ogbg-mol*`` take them.
    ``ndata['pos']`` is (num_atoms, 3), float32, where the molecule has a conformer in space.

    Raises DGLError: it is no molecule of RDKit.
    """
    if type(molecule).__module__.partition(".")[0] != "rdkit" or not hasattr(molecule, "GetAtoms"):
        hint = "; for a SMILES string, dglite.from_smiles" if isinstance(molecule, str) else ""
        raise DGLError(f"expected a molecule of RDKit, got {type(molecule).__name__}{hint}")
    bonds = list(molecule.GetBonds())
    ends = np.array([(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds], np.int64).reshape(-1, 2)
    both = np.stack([ends, ends[:, ::-1]], axis=1).reshape(-1, 2)
    g = graph((both[:, 0], both[:, 1]), num_nodes=molecule.GetNumAtoms())
    g.ndata["feat"] = active.from_numpy(_numbers(molecule.GetAtoms(), ATOM_FEATURES))
    g.edata["feat"] = active.from_numpy(_numbers(bonds, BOND_FEATURES).repeat(2, axis=0))
    if molecule.GetNumConformers() and molecule.GetConformer().Is3D():
        positions = np.asarray(molecule.GetConformer().GetPositions(), dtype=np.float32)
        g.ndata["pos"] = active.from_numpy(positions)
    return g


def _numbers(atoms_or_bonds: Iterable[Any], features: Mapping[str, tuple[Sequence[Any], Any]]) -> np.ndarray:
    """Return the index of each feature's value among the listed values; other values have the index after the last."""
    codes = [({value: i for i, value in enumerate(values)}, read) for values, read in features.values()]
    rows = [[numbers.get(read(item), len(numbers)) for numbers, read in codes] for item in atoms_or_bonds]
    return np.array(rows, dtype=np.int64).reshape(-1, len(features))


def _parsed(smiles: Any, place: str, with_hydrogen: bool, kekulize: bool) -> DGLGraph:
    try:
        from rdkit import Chem, RDLogger
    except ImportError as error:
        raise ImportError("molecules need RDKit: pip install rdkit", name="rdkit") from error
    if not isinstance(smiles, str):
        raise DGLError(f"{place}SMILES must be a string, got {type(smiles).__name__}")
    RDLogger.DisableLog("rdApp.error")  # the reason is in the error below
    try:
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is None:
            raise DGLError(f"{place}{smiles!r} is no SMILES that RDKit can read; {_problem(Chem, smiles)}")
        if with_hydrogen:
            molecule = Chem.AddHs(molecule)
        if kekulize:
            Chem.Kekulize(molecule)
    finally:
        RDLogger.EnableLog("rdApp.error")
    return from_rdkit(molecule)


def _problem(chem: Any, smiles: str) -> str:
    """Return why a SMILES string is not valid."""
    molecule = chem.MolFromSmiles(smiles, sanitize=False)
    if molecule is None:
        return "its syntax is wrong: check brackets, and the digits that open and close rings"
    problems = [problem.Message() for problem in chem.DetectChemistryProblems(molecule)]
    return "; ".join(problems) or "its chemistry is not valid"
