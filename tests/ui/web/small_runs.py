"""Small runs to serve: texts, images and a table, with words and names in them that look like HTML."""

from pathlib import Path

import numpy as np

from turnover.runs.config import RunConfig
from turnover.runs.run import Run, start_run

SCRIPT = "<script>document.title='taken over'</script>"
GOOD, BAD = "good", "bad & <dull>"
_WORDS = {
    GOOD: ("bright", "moving", "funny", "warm", "great", "sharp"),
    BAD: ("boring", "flat", "weak", "stale", "clumsy", "gray"),
}
_THINGS = ("film", "plot", "cast", "story", "score", "ending")


def text_file(folder: Path, rows: int = 160) -> Path:
    """Write texts whose label their words tell, except for every twentieth."""
    random = np.random.default_rng(0)
    lines = ["id,text,label"]
    for row in range(rows):
        told = (GOOD, BAD)[row % 2]
        words = random.choice(_WORDS[told], 2, replace=False)
        text = f"a {words[0]}, {words[1]} {random.choice(_THINGS)} number {row}"
        if row % 40 == 3:
            text += f" {SCRIPT}"
        label = told if row % 20 != 5 else (GOOD, BAD)[1 - row % 2]
        lines.append(f'{row:04},"{text}",{label}')
    file = folder / "reviews.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def text_run(folder: Path) -> Run:
    """Return a run of texts."""
    config = RunConfig(
        str(text_file(folder)), text="text", label="label", hidden=128, replicas=4, epochs=15, learning_rate=5e-3
    )
    return start_run(config, folder / "text-run")


def group_run(folder: Path) -> Run:
    """Return a run of texts whose instances are eight annotators."""
    first, *lines = text_file(folder).read_text(encoding="utf-8").splitlines()
    file = folder / "groups.csv"
    rows = [f"{line},annotator {row % 8}" for row, line in enumerate(lines)]
    file.write_text("\n".join([f"{first},who", *rows]) + "\n", encoding="utf-8")
    config = RunConfig(
        str(file), text="text", label="label", group="who", hidden=128, replicas=4, epochs=8, learning_rate=5e-3
    )
    return start_run(config, folder / "group-run")


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
    config = RunConfig(
        str(text_file(folder, 60)),
        text="text",
        label="label",
        model=str(encoder),
        adapters=8,
        hidden=32,
        epochs=2,
        learning_rate=1e-2,
    )
    return start_run(config, folder / "adapter-run")


def image_run(folder: Path) -> Run:
    """Return a run of small gray images: a light bar lies or stands."""
    from PIL import Image

    random = np.random.default_rng(0)
    for row in range(60):
        pixels = random.integers(0, 60, (8, 8)).astype(np.uint8)
        label, place = ("lies", "stands")[row % 2], int(random.integers(1, 7))
        pixels[(place, slice(None)) if label == "lies" else (slice(None), place)] = 250
        file = folder / "bars" / label / f"{row:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
    config = RunConfig(str(folder / "bars"), hidden=32, replicas=3, epochs=6, image_size=8, learning_rate=5e-3)
    return start_run(config, folder / "image-run")


def table_run(folder: Path) -> Run:
    """Return a run of a table with numbers, a category, wrong labels, and a column whose name looks like HTML."""
    random = np.random.default_rng(0)
    lines = ["<b>size</b>;color;weight;kind"]
    for row in range(80):
        size, color = random.normal(), random.choice(["red", "green", "blue"])
        weight = "" if random.random() < 0.1 else f"{random.normal(5):.2f}"
        lines.append(f"{size:.3f};{color};{weight};{'large' if (size > 0) != (row % 9 == 4) else 'small'}")
    file = folder / "things.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = RunConfig(str(file), label="kind", hidden=64, replicas=3, epochs=40, learning_rate=1e-2)
    return start_run(config, folder / "table-run")
