"""A sample of the campaign, in seconds; and every kind of judge can fail: it sees errors that are put in on purpose."""

from functools import partial

import pytest

pytest.importorskip("pandas", reason="needs the extra cli")
pytest.importorskip("PIL", reason="needs the extra cli")
pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install pyarrow")
pytest.importorskip("fastapi", reason="fastapi is missing: pip install 'turnover[serve]'")

import pyarrow.compute as pc

from tests.campaign import damages, files, interruptions, misuse
from tests.campaign.cleaned import try_cleaned
from tests.campaign.results import page, table, written
from tests.campaign.trial import Budget, Outcome, Tally, judged
from turnover.errors import RunError

FEW = Budget(seed=11, share=0.004)
SAMPLE = {
    **{f"reading: {name}": reader for name, reader in files.READERS.items()},
    "cleaned files": partial(try_cleaned, 800),
    "damaged model": partial(damages.try_damages, "saved model"),
    "damaged score files": partial(damages.try_damages, "score files"),
}


def outcomes(trial, budget=FEW):
    tally = Tally()
    trial(budget, tally)
    return tally


@pytest.mark.filterwarnings("ignore::turnover.errors.TurnOverWarning")
@pytest.mark.parametrize("name", SAMPLE)
def test_nothing_ends_silently_different_lost_or_in_a_traceback(name):
    tally = outcomes(SAMPLE[name])
    assert tally.tried
    assert not tally.failed, "\n".join(tally.examples)


@pytest.mark.filterwarnings("ignore::turnover.errors.TurnOverWarning")
def test_no_misuse_ends_in_silence():
    tally = outcomes(misuse.try_misuse, Budget(share=0.05))
    assert not tally.failed, "\n".join(tally.examples)
    assert len(misuse.CASES) > 200


def test_the_judge_of_readers_sees_a_lost_digit(monkeypatch):
    from turnover.runs import columns

    whole = columns._numbers_or_categories
    monkeypatch.setattr(columns, "_numbers_or_categories", lambda cells: _rounded(whole(cells)))
    tally = outcomes(files.READERS["csv and tsv"], Budget(seed=1, share=0.02))
    assert tally.counts[Outcome.DIFFERENT] > 0


def _rounded(values):
    return pc.round(values, 10) if values.type == "double" else values


def test_the_judge_of_damages_sees_one_that_no_checksum_finds(monkeypatch):
    monkeypatch.setattr("turnover.wrapping.saved._check_file", lambda path, checksum: None)
    monkeypatch.setattr(damages, "_FLIPS", 40)
    tally = outcomes(damages.DAMAGES["saved model"], Budget())
    assert tally.counts[Outcome.DIFFERENT] + tally.counts[Outcome.TRACEBACK] > 0


def test_the_judge_of_kills_sees_what_cannot_be_resumed(tmp_path):
    def rejected(folder):
        raise RunError("this folder cannot be resumed.")

    broken = interruptions.Job(rejected, rejected)
    assert interruptions._after(broken, tmp_path, {})[0] is Outcome.LOST


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        (lambda: "", Outcome.RIGHT),
        (lambda: "another answer", Outcome.DIFFERENT),
        (lambda: {}["key"], Outcome.TRACEBACK),
        (lambda: (_ for _ in ()).throw(RunError("give another folder.")), Outcome.REJECTED),
        (lambda: (_ for _ in ()).throw(RunError("")), Outcome.TRACEBACK),
    ],
)
def test_every_end_has_its_outcome(action, outcome):
    assert judged(action)[0] is outcome


def test_the_table_has_all_trials_and_their_sum():
    tally = Tally()
    tally.add(Outcome.RIGHT, "")
    tally.add(Outcome.LOST, "an edit")
    results = written({"live page: edits": tally, "two writers": tally}, seed=3, share=1.0)
    assert "| all" in table(results)
    assert table(results).splitlines()[-1].split("|")[2].strip() == "4"
    assert "seed 3" in page(results)
    assert results["trials"][0]["examples"] == ["lost: an edit"]
