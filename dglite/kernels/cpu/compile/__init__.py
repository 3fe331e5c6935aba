"""From kernel source to machine code, kept in the cache."""
