"""The bench of turnover: compared methods, checks of attribution methods, experiments of the paper, benchmarks.

It imports turnover, and turnover never imports it: `turnover evaluate RUN --method NAME` finds the methods by the
entry point `turnover.methods`.

| folder | content |
| --- | --- |
| `baselines/` | the compared methods, one file per method, and methods of other packages |
| `checks/` | checks of attribution methods beyond LDS and wrong labels, and one table of all of them |
| `experiments/` | the paper's results and our own: `python -m turnover_bench.experiments` |
| `benchmarks/` | speed, memory, faithfulness, other packages: `python -m turnover_bench.benchmarks` |
"""
