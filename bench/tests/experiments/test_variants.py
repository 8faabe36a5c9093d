"""Variants: a toy run trains and judges every one, resumes, and the page says what the numbers say."""


def test_against_the_full_network_other_scores_come_from_the_same_training(toy):
    base, full = (toy.result["variants"][name][0] for name in ("base", "full_network"))
    assert base["accuracy"] == full["accuracy"]
    assert base["lds"] != full["lds"]
