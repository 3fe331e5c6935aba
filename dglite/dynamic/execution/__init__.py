"""What happens at each call of a vertex program: order, memory, and the sweeps over the levels."""
