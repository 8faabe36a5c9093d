"""Mask bits of released formats never change."""

import json
from pathlib import Path

import pytest
import torch

from tests.reference.mask_twin import hex_words
from turnover.masks import Stream, source_from, unpack
from turnover.masks.hashing import FORMAT

FOLDER = Path(__file__).parent.parent / "golden" / "masks"
GOLDEN = json.loads((FOLDER / "format_1.json").read_text(encoding="ascii"))


def name_of(case):
    return f"{case['source']}-{case['seed']}-{case['site']!a}-{case['keep']:.3g}"


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=name_of)
def test_bits_are_those_of_the_golden_file(case):
    source = source_from(case["source"], int(case["seed"]), case["options"])
    ids = torch.tensor([int(number) for number in case["words"]])
    (words,) = source.words(ids, [Stream(case["site"], case["width"], case["keep"])])
    bits = unpack(words, case["width"]).tolist()
    assert [hex_words(row) for row in bits] == list(case["words"].values())


def test_golden_file_has_the_format_of_the_code_and_ids_at_all_edges():
    assert GOLDEN["format"] == FORMAT
    edges = {2**24, 2**31, 2**53, 2**62, 2**63 - 1}
    assert all(edges <= {int(number) for number in case["words"]} for case in GOLDEN["cases"])
    assert {case["source"] for case in GOLDEN["cases"]} == {"counter", "volatile", "codebook"}
