"""Benchmarks of other packages: a toy run of each where its package is, and the page of both."""

import pytest

from turnover_bench.benchmarks.peers.digits import SIZES

FOUND = {
    "dattri": {
        "methods": {
            "dattri: Grad-Dot": {"lds": [0.1, 0.2], "auc": [0.6, 0.6], "seconds": [1.0, 2.0]},
            "turnover: one finished network": {"lds": [0.3, 0.5], "auc": [0.5, 0.6], "seconds": [0.5, 0.7]},
        },
        "epochs": 50,
    },
    "quanda": {
        "methods": {
            "quanda: random": {"class": [0.1], "seconds": [0.0]},
            "turnover: one finished network": {"class": [0.1], "seconds": [0.1]},
        },
        "likeness": {"cosine of hidden units": {"subclass": [1.0], "different": [53.0], "lds": [0.2]}},
        "epochs": 30,
    },
}


def part(package):
    config = {"rows": 600, "tests": 60, "halves": 40, "epochs": None, "seeds": [0, 1]}
    return FOUND[package] | {"config": config, "seconds": 61.0, "version": "1.0"}


@pytest.mark.slow
def test_dattri_judges_our_scores_beside_its_own(tmp_path):
    pytest.importorskip("dattri", reason="dattri is missing: make -C bench packages installs it")
    from turnover_bench.benchmarks.peers.by_dattri import measure

    found = measure(SIZES["toy"], tmp_path)["methods"]
    assert all(-1 <= figures["lds"][0] <= 1 for figures in found.values())
    assert {name.partition(":")[0] for name, figures in found.items() if "auc" in figures} == {"dattri", "turnover"}
