"""Pictures of graphs, summaries of models, and profiles.

Imported when one of its functions is first used; matplotlib and NetworkX when something is drawn.
"""
