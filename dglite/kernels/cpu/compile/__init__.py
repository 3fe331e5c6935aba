"""From kernel source to machine code, cached on disk."""
