"""What docs/format.md says is what the twin and the library do."""

import hashlib
import json
import re
import struct
from pathlib import Path

import pytest
import torch

import turnover
from tests.reference import mask_twin as twin
from turnover.batches import instance_id_of
from turnover.layers.recipe import RECIPE_KEY, Learned, Recipe, SiteRecipe, to_tensor
from turnover.masks import Stream, hashing, source_from, unpack

TEXT = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
SEED, SITE, ID, WIDTH = 7, "encoder.größe", 2**53 + 1, 40


def table_after(heading):
    section = TEXT.split(f"{heading}\n", 1)[1].split("\n#", 1)[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    return {name: value.strip("`").removesuffix(" (decimal)") for name, value in rows}


EXAMPLE = table_after("### A worked example")


def in_hex(*words):
    return " ".join(f"{word:08x}" for word in words)


@pytest.mark.parametrize("name", [name for name in EXAMPLE if re.match("(counter|volatile|codebook),", name)])
def test_worked_example_is_what_the_library_computes(name):
    kind, *settings = name.split(", ")
    options = dict(setting.split() for setting in settings)
    keep = float(options.pop("keep"))
    source = source_from(kind, SEED, {option: int(value) for option, value in options.items()})
    (words,) = source.words(torch.tensor([ID]), [Stream(SITE, WIDTH, keep)])
    assert twin.hex_words(unpack(words, WIDTH)[0].tolist()) == EXAMPLE[name]


def test_library_derives_the_keys_and_the_stream_of_the_worked_example():
    words = hashing.key_words("counter", SEED, SITE)
    assert in_hex(*(word % 2**32 for word in words[:3])) == EXAMPLE["K0, K1, K2"]
    low, high = hashing.id_words(torch.tensor([ID]))
    first, second = hashing.instance_keys(low, high, torch.tensor(words, dtype=torch.int32))
    assert in_hex(int(second) % 2**32, int(first) % 2**32) == EXAMPLE["X, B, A"][9:]


def test_recipe_tensor_is_laid_out_as_described():
    (head,) = re.findall(r"^((?:[0-9a-f]{2} ){20,}[0-9a-f]{2})$", TEXT, re.MULTILINE)
    (body,) = re.findall(r"^```json\n(.+)\n```$", TEXT, re.MULTILINE)
    recipe = Recipe("counter", SEED, (SiteRecipe(SITE, "output", "features", 0.5),))
    tensor = to_tensor(recipe, Learned(passes=3, widths=[WIDTH], batch_dims=[0]))
    assert tensor.dtype == torch.uint8
    assert tensor.dim() == 1
    assert bytes(tensor.tolist()) == bytes.fromhex(head) + body.encode("ascii")


def test_recipe_tensor_can_be_read_by_the_description_alone():
    net = torch.nn.Sequential(torch.nn.Linear(3, 40), torch.nn.ReLU(), torch.nn.Linear(40, 5))
    net = turnover.wrap(net, at=["0", "1"], keep=0.3, seed=-(2**70), masks="codebook")
    for _ in range(2):
        with turnover.instances(range(6)):
            net(torch.zeros(6, 3))
    content = bytes(net.state_dict()[RECIPE_KEY].tolist())
    magic, sites, passes = struct.unpack("<8sIQ", content[:20])
    assert (RECIPE_KEY, magic, sites, passes) == ("turnover_recipe", b"TURNOVER", 2, 2)
    records = [struct.unpack("<IB", content[20 + 5 * i : 25 + 5 * i]) for i in range(sites)]
    assert [width for width, _ in records] == [40, 40]
    recipe = json.loads(content[20 + 5 * sites :].decode("ascii"))
    assert recipe["format"] == 1
    assert (recipe["kind"], recipe["seed"]) == ("codebook", -(2**70))
    assert recipe["options"] == {"rows": 4096, "picks": 4}
    assert [site["path"] for site in recipe["sites"]] == ["0", "1"]
    described = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`\w+`(?:, `\w+`)?) \|", TEXT, re.MULTILINE))))
    assert described == set(recipe) | set(recipe["sites"][0])


def test_saved_folder_is_laid_out_as_described(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    turnover.save(turnover.wrap(net, at=["1"]), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "turnover.json", "weights.pt"]
    manifest = json.loads((tmp_path / "turnover.json").read_text(encoding="utf-8"))
    assert manifest.keys() == {"base_sha256", "checksum", "format", "recipe", "weights_sha256"}
    assert manifest["format"] == 1
    weights = (tmp_path / "weights.pt").read_bytes()
    assert manifest["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    state = torch.load(tmp_path / "weights.pt", weights_only=True)
    text = bytes(state[RECIPE_KEY].tolist())[25:].decode("ascii")
    assert manifest["recipe"] == json.loads(text)


def test_string_id_in_the_text_is_that_of_the_library():
    (name, number) = re.search(r"`([\w-]+)` is\n?\s*(\d+)", TEXT).groups()
    assert instance_id_of(name) == int(number)
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    assert int.from_bytes(digest, "little") % 2**62 == int(number)
