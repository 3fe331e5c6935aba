import dgl
import torch
from dgllife.model import AttentiveFPPredictor
from dgllife.utils import AttentiveFPAtomFeaturizer, AttentiveFPBondFeaturizer, smiles_to_bigraph

nodes, bonds = AttentiveFPAtomFeaturizer(), AttentiveFPBondFeaturizer(self_loop=True)
smiles = ["CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "c1ccc2ccccc2c1"] * 16
graphs = [smiles_to_bigraph(s, add_self_loop=True, node_featurizer=nodes, edge_featurizer=bonds) for s in smiles]
g = dgl.batch(graphs)
torch.manual_seed(0)
model = AttentiveFPPredictor(nodes.feat_size("h"), bonds.feat_size("e"), graph_feat_size=64)


def step():
    model.zero_grad()
    loss = model(g, g.ndata["h"], g.edata["e"]).square().mean()
    loss.backward()
    return loss


print("value", step().item())
