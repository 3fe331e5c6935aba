"""From a specification to kernel source: pure functions that return text."""
