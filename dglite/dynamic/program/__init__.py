"""From a vertex function to a plan: traced, differentiated and laid out once for each function."""
