"""What shows graphs and models to people: pictures, summaries of models, and where time goes.

Imported when one of its functions is first used; matplotlib and NetworkX when something is drawn.
"""
