"""The paper's results and our own, one folder each, run with `python -m turnover_bench.experiments`.

Owns: configurations, runs and result pages. Must not know: anything of `turnover` that is not importable by a user.

| file | idea |
| --- | --- |
| `runner.py`, `__main__.py` | one folder per configuration: result, page, expected ranges; several at a time |
| `findings.py`, `index.py` | the paper's number beside ours, numbers as pages write them; the page of all results |
| `timing.py`, `figures.py` | processor seconds, ratios, growth; one set-up for figures |
| `networks.py`, `encoders.py`, `digits_network.py` | networks and their masks; pretrained encoders; digits |
| `datasets/` | the data sets, read from a folder of the user's own |
| `side_effects` … `variants` | the paper's results: see `PAPER` in `index.py`; three of them share `errors/` |
| `mask_cost`, `mask_cost_classes`, `mask_cost_run`, `mask_dropout` | what masks cost, and when they cost less |
| `own_row`, `own_row_recipes` | what a flipped subnetwork knows of its own row, and why |
| `calibration`, `compared`, `curvature_intervals`, `laws`, `real_models`, `wrong_labels` | our own |
"""
