"""The paper's results, one folder each, run with `python -m experiments`.

Owns: configurations, runs and result pages. Must not know: anything of `turnover` that is not importable by a user.
"""
