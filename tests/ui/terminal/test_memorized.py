"""`turnover memorized`: histogram, likely label errors, near-duplicates."""


def test_the_histogram_and_likely_label_errors_are_shown(turnover_, text_run):
    said = turnover_("memorized", text_run, "--most", "3")
    assert said.code == 0, said.err
    for part in ("Self-influence of the training rows", "█", "are memorized: their self-influence is"):
        assert part in said.words


def test_json_has_rows_by_number_and_labels_by_name(turnover_, text_run):
    found = turnover_("memorized", text_run, "--json").data
    assert found["memorized"]["rows"] == 36
    assert sum(found["memorized"]["histogram"]["counts"]) == 36
    for row in found["memorized"]["items"]:
        assert row["name"] == f"line {row['row'] + 2}"
        assert row["label"] in ("good", "bad")
