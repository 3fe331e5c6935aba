import glob

import dgl
import torch

torch.set_default_dtype(torch.float64)  # its radial basis is of float64 with NumPy 2, whatever the features are
from alignn.graphs import Graph  # noqa: E402
from alignn.models.alignn import ALIGNN, ALIGNNConfig  # noqa: E402
from jarvis.core.atoms import Atoms  # noqa: E402

files = sorted(glob.glob("alignn/examples/sample_data/*.vasp"))[:8]
pairs = [Graph.atom_dgl_multigraph(Atoms.from_poscar(file), atom_features="cgcnn") for file in files]
lattices = torch.stack([torch.tensor(Atoms.from_poscar(file).lattice_mat) for file in files])
g, lg = dgl.batch([pair[0] for pair in pairs]), dgl.batch([pair[1] for pair in pairs])
torch.manual_seed(0)
model = ALIGNN(ALIGNNConfig(name="alignn", atom_input_features=92, hidden_features=64, embedding_features=32))


def step():
    model.zero_grad()
    loss = model((g, lg, lattices)).square().mean()
    loss.backward()
    return loss


print("value", step().item())
