"""Ready-made tasks for the command line: data, a sensible model and its training in one place.

Owns: loading data and training a wrapped model on it. Must not know: terminals and pages.
"""
