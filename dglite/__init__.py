"""Graph deep learning with DGL's programming model, in pure Python."""
