"""Errors and warnings carry as data what code reacts to, also through a worker process."""

import pickle

import pytest

from turnover.errors import PlanError, SavedModelError, StoreLockedError, TurnOverWarning, WeakSignalWarning


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PlanError(["no site"]), "the model was not changed: 1 problem with this plan\n  - no site"),
        (SavedModelError("weights.pt is missing", cure="Save it again."), "weights.pt is missing. Save it again."),
        (SavedModelError("weights do not fit"), "weights do not fit"),
        (StoreLockedError("it is being written by pid 7."), "it is being written by pid 7."),
        (WeakSignalWarning("hardly learned"), "hardly learned"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_message_and_fields_survive_pickling(error, text):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error) == text
    assert vars(copy) == vars(error)


def test_whoever_ignores_all_warnings_of_turnover_ignores_weak_signals_too():
    assert issubclass(WeakSignalWarning, TurnOverWarning)
