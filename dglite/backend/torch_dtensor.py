"""What torch.distributed.tensor has, which torch 2.4 has in another module."""

try:
    from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
except ImportError:
    from torch.distributed._tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
