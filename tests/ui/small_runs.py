"""Small runs of every kind, with words and names in them that look like HTML or would command a terminal."""

from pathlib import Path
from typing import Any

import numpy as np

from turnover.runs import Run, RunConfig, start_run

SCRIPT = "<script>document.title='taken over'</script>"
GOOD, BAD = "good", "bad & <dull>"
_WORDS = {
    GOOD: ("bright", "moving", "funny", "warm", "great", "sharp"),
    BAD: ("boring", "flat", "weak", "stale", "clumsy", "gray"),
}
_THINGS = ("film", "plot", "cast", "story", "score", "ending")
# Enough to memorize rows: of a network that knows nothing, the engine says that its scores are noise.
SMALL: dict[str, Any] = {
    "hidden": 64,
    "replicas": 3,
    "epochs": 12,
    "batch_size": 16,
    "learning_rate": 0.01,
    "validation": 0.2,
    "test": 0.2,
}


def text_file(folder: Path, rows: int = 160) -> Path:
    random = np.random.default_rng(0)
    lines = ["id,text,label"]
    for row in range(rows):
        true_label = (GOOD, BAD)[row % 2]
        words = random.choice(_WORDS[true_label], 2, replace=False)
        text = f"a {words[0]}, {words[1]} {random.choice(_THINGS)} number {row}"
        if row % 40 == 3:
            text += f" {SCRIPT}"
        label = true_label if row % 20 != 5 else (GOOD, BAD)[1 - row % 2]
        lines.append(f'{row:04},"{text}",{label}')
    return _written(folder / "reviews.csv", lines)


def text_run(folder: Path) -> Run:
    settings = {"hidden": 128, "replicas": 4, "epochs": 15, "learning_rate": 5e-3}
    return start_run(RunConfig(str(text_file(folder)), text="text", label="label", **settings), folder / "text-run")


def report_run(folder: Path) -> Run:
    """Return a run of texts of which two say the same; test rows repeat training texts, four with a wrong label."""
    header, *lines = text_file(folder).read_text(encoding="utf-8").splitlines()
    lines += ["0160,same words twice,good", f'0161,"Same words, twice!",{BAD}']
    file = _written(folder / "reviews.csv", [header, *lines])
    test = [line if row >= 4 else f"{line.rpartition(',')[0]},{(BAD, GOOD)[row % 2]}" for row, line in enumerate(lines)]
    test_file = _written(folder / "test.csv", [header, *test[:30]])
    config = RunConfig(str(file), text="text", label="label", test_data=str(test_file), **{**SMALL, "test": 0.0})
    return start_run(config, folder / "report-run")


def number_file(folder: Path, rows: int = 240) -> Path:
    random = np.random.default_rng(0)
    cells = random.uniform(0, 1, (rows, 3))
    true = 100 + 40 * cells[:, 0] - 30 * cells[:, 1] + 10 * np.sin(6 * cells[:, 2]) + random.normal(0, 1, rows)
    given = true.copy()
    given[::20] = true[random.permutation(rows)[: len(given[::20])]]
    lines = ["a,b,c,y,true"]
    for row in range(rows):
        a, b, c = cells[row]
        lines.append(f"{a:.5f},{b:.5f},{c:.5f},{given[row]:.3f},{true[row]:.3f}")
    return _written(folder / "numbers.csv", lines)


def number_run(folder: Path) -> Run:
    config = RunConfig(str(number_file(folder)), label="y", columns=("a", "b", "c"), **SMALL)
    return start_run(config, folder / "number-run")


def group_run(folder: Path) -> Run:
    """Return a run of texts whose instances are eight annotators, one of whom has all labels wrong."""
    swapped = {"good": "bad", "bad": "good"}
    lines = ["text,label,who"]
    for row, line in enumerate(reviews(120).splitlines()[1:]):
        text, _, truth = line.split(",")
        lines.append(f"{text},{swapped[truth] if row % 8 == 3 else truth},annotator {row % 8}")
    file = _written(folder / "groups.csv", lines)
    return start_run(RunConfig(str(file), text="text", label="label", group="who", **SMALL), folder / "group-run")


def adapter_run(folder: Path) -> Run:
    """Return a run of texts with adapters in a tiny encoder that knows nothing."""
    import torch
    import transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", *_WORDS[GOOD], *_WORDS[BAD], *_THINGS]
    encoder = folder / "encoder"
    transformers.BertTokenizerFast(vocab={word: place for place, word in enumerate(words)}).save_pretrained(encoder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **sizes)).save_pretrained(encoder)
    settings = {"model": str(encoder), "adapters": 8, "hidden": 32, "epochs": 2, "learning_rate": 1e-2}
    file = text_file(folder, 60)
    return start_run(RunConfig(str(file), text="text", label="label", **settings), folder / "adapter-run")


def image_folder(folder: Path) -> Path:
    """Write 60 small gray images on which a light bar lies or stands; every tenth is in the wrong folder."""
    from PIL import Image

    random = np.random.default_rng(0)
    for row in range(60):
        pixels = random.integers(0, 60, (8, 8)).astype(np.uint8)
        stands, place = bool(row % 2), int(random.integers(1, 7))
        pixels[(slice(None), place) if stands else (place, slice(None))] = 250
        file = folder / ("stands" if stands ^ (row % 10 == 9) else "lies") / f"{row:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
    return folder


def image_run(folder: Path) -> Run:
    return start_run(RunConfig(str(image_folder(folder / "bars")), image_size=8, **SMALL), folder / "image-run")


def table_run(folder: Path, **settings: Any) -> Run:
    random = np.random.default_rng(0)
    lines = ["<b>size</b>;color;weight;kind"]
    for row in range(80):
        size, color = random.normal(), random.choice(["red", "green", "blue"])
        weight = "" if random.random() < 0.1 else f"{random.normal(5):.2f}"
        lines.append(f"{size:.3f};{color};{weight};{'large' if (size > 0) != (row % 9 == 4) else 'small'}")
    file = _written(folder / "things.csv", lines)
    settings = {"hidden": 64, "replicas": 3, "epochs": 40, "learning_rate": 1e-2, **settings}
    return start_run(RunConfig(str(file), label="kind", **settings), folder / "table-run")


def reviews(rows: int = 60) -> str:
    random = np.random.default_rng(0)
    praise, blame = "fine lovely warm bright clever".split(), "dull awful cold grim clumsy".split()
    lines = ["text,label,truth"]
    for number in range(rows):
        words = (praise, blame)[number % 2]
        truth, label = (("good", "bad")[(number % 2) ^ wrong] for wrong in (False, number % 10 == 9))
        lines.append(f"a {random.choice(words)} and {random.choice(words)} film number {number},{label},{truth}")
    return "\n".join(lines) + "\n"


def _written(file: Path, lines: list[str]) -> Path:
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
