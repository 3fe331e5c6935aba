"""``dgl.contrib``: the samplers of DGL 0.4."""
