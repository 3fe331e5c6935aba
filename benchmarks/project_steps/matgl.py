import torch
from matgl.ext.pymatgen import Structure2Graph, get_element_list
from matgl.models._chgnet import CHGNet
from pymatgen.core import Lattice, Structure

cell = Structure.from_spacegroup("Pm-3m", Lattice.cubic(4.04), ["Li", "O"], [[0, 0, 0], [0.5, 0.5, 0.5]]) * (2, 2, 2)
elements = get_element_list([cell])
g, lattice, _ = Structure2Graph(element_types=elements, cutoff=5.0).get_graph(cell)
g.edata["pbc_offshift"] = torch.matmul(g.edata["pbc_offset"], lattice[0])
g.ndata["pos"] = g.ndata["frac_coords"] @ lattice[0]
torch.manual_seed(0)
model = CHGNet(element_types=elements, is_intensive=False)


def step():
    model.zero_grad()
    energy = model(g=g).sum()
    energy.backward()
    return energy


print("value", step().item())
