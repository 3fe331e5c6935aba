"""Running what was recorded, in batches, and differentiating it."""
