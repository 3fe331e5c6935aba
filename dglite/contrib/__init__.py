"""What DGL kept apart as experimental: the samplers of version 0.4."""
