"""Graphs of molecules from SMILES and RDKit, against what OGB's own table of features says."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import dglite
from dglite.convert.molecules import ATOM_FEATURES, BOND_FEATURES
from dglite.errors import DGLError

with_rdkit = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import rdkit.Chem"], capture_output=True, check=False).returncode != 0,
    reason="RDKit is not installed",
)


@with_rdkit
def test_ethanol() -> None:
    g = dglite.from_smiles("CCO")
    assert (g.num_nodes(), g.num_edges(), g.ndata["feat"].shape, g.edata["feat"].shape) == (3, 4, (3, 9), (4, 3))
    assert torch.stack(g.edges()).tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert g.ndata["feat"].tolist() == [
        [5, 0, 4, 5, 3, 0, 2, 0, 0],
        [5, 0, 4, 5, 2, 0, 2, 0, 0],
        [7, 0, 2, 5, 1, 0, 2, 0, 0],
    ]
    assert g.edata["feat"].tolist() == [[0, 0, 0]] * 4 and g.ndata["feat"].dtype == torch.int64


@with_rdkit
def test_what_features_say() -> None:
    atoms, bonds = list(ATOM_FEATURES), list(BOND_FEATURES)
    benzene = dglite.from_smiles("c1ccccc1")
    assert benzene.ndata["feat"][:, atoms.index("aromatic")].tolist() == [1] * 6
    assert benzene.ndata["feat"][:, atoms.index("in a ring")].tolist() == [1] * 6
    assert benzene.edata["feat"][:, bonds.index("bond type")].tolist() == [3] * 12
    kekule = dglite.from_smiles("c1ccccc1", kekulize=True)
    assert sorted(set(kekule.edata["feat"][:, 0].tolist())) == [0, 1]
    ammonium = dglite.from_smiles("[NH4+]")
    assert ammonium.ndata["feat"][0, atoms.index("formal charge + 5")] == 6 and ammonium.num_edges() == 0
    assert ammonium.edata["feat"].shape == (0, 3)
    left, right = (dglite.from_smiles(text).ndata["feat"][:, 1] for text in ("C[C@H](N)O", "C[C@@H](N)O"))
    assert sorted({*left.tolist(), *right.tolist()}) == [0, 1, 2] and not torch.equal(left, right)
    trans, cis = (dglite.from_smiles(text).edata["feat"][:, 1].max() for text in ("F/C=C/F", "F/C=C\\F"))
    assert {int(trans), int(cis)} == {1, 2}


@with_rdkit
def test_hydrogens_and_positions() -> None:
    from rdkit import Chem
    from rdkit.Chem import AllChem

    assert dglite.from_smiles("CCO", with_hydrogen=True).num_nodes() == 9
    molecule = Chem.AddHs(Chem.MolFromSmiles("CCO"))
    assert "pos" not in dglite.from_rdkit(molecule).ndata
    AllChem.EmbedMolecule(molecule, randomSeed=1)
    positions = dglite.from_rdkit(molecule).ndata["pos"]
    assert positions.shape == (9, 3) and positions.dtype == torch.float32


@with_rdkit
def test_a_list_can_be_batched() -> None:
    graphs = dglite.from_smiles(["CCO", "c1ccccc1", "[Na+]"])
    assert dglite.batch(graphs).batch_num_nodes().tolist() == [3, 6, 1]
    assert dglite.from_smiles([]) == []


@with_rdkit
def test_errors_say_which_molecule_is_wrong() -> None:
    for call, words in (
        (lambda: dglite.from_smiles("C1CC"), ["'C1CC'", "rings"]),
        (lambda: dglite.from_smiles(["CC", "CC(C)(C)(C)C"]), ["molecule 1 of the list", "valence"]),
        (lambda: dglite.from_smiles(["CC", None]), ["molecule 1", "NoneType"]),
        (lambda: dglite.from_rdkit("CC"), ["from_smiles"]),
        (lambda: dglite.from_smiles(3), ["int"]),
    ):
        with pytest.raises(DGLError) as error:
            call()
        assert not [word for word in words if word not in str(error.value)], str(error.value)


def test_without_rdkit_the_error_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['rdkit'] = None; import dglite; dglite.from_smiles('C')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: molecules need RDKit: pip install rdkit" in done.stderr
