"""Write the golden mask bits of a format version, once.

    python -m tests.golden.masks.write

The bits come from the slow twin. A file that exists is never written again: models in the world
depend on it. A change of the bits is a new format version with a file of its own.
"""

import json
from pathlib import Path

from tests.reference.mask_twin import hex_words, twin_bits

FORMAT = 1
PATH = Path(__file__).with_name(f"format_{FORMAT}.json")
IDS = sorted(
    {0, 1, 2, 1023, 1024, 123_456_789_012, 2**63 - 2, 2**63 - 1}
    | {2**power + step for power in (24, 31, 32, 53, 62) for step in (-1, 0, 1)}
)
CASES: list[tuple[str, dict[str, int], int, str, float, int]] = [
    ("counter", {}, 0, "fc1", 0.5, 70),
    ("counter", {}, 0, "fc2", 0.5, 64),
    ("counter", {}, 1, "fc1", 0.5, 64),
    ("counter", {}, -7, "fc1", 0.1, 64),
    ("counter", {}, 2**64 + 3, "encoder.layer.11.adapter", 0.9, 64),
    ("counter", {}, 42, "größe.层.😀", 0.75, 33),
    ("counter", {}, 42, "", 2.0**-24, 64),
    ("counter", {}, 42, 'quote"backslash\\tab\t', 1 - 2.0**-24, 64),
    ("volatile", {"block": 1024}, 0, "fc1", 0.5, 70),
    ("volatile", {"block": 1024}, -7, "fc1", 0.1, 64),
    ("volatile", {"block": 1}, 0, "fc1", 0.5, 64),
    ("volatile", {"block": 1000}, 2**64 + 3, "größe.层.😀", 0.9, 64),
    ("codebook", {"rows": 4096, "picks": 4}, 0, "fc1", 0.5, 70),
    ("codebook", {"rows": 4096, "picks": 4}, 0, "fc2", 0.1, 64),
    ("codebook", {"rows": 12, "picks": 3}, -7, "größe.层.😀", 0.9, 64),
    ("codebook", {"rows": 64, "picks": 1}, 2**64 + 3, "fc1", 0.75, 64),
]


def main() -> None:
    if PATH.exists():
        raise SystemExit(f"{PATH} exists. Golden bits never change; raise FORMAT for new ones.")
    cases: list[dict[str, object]] = []
    for source, options, seed, site, keep, width in CASES:
        bits = twin_bits(source, seed=seed, site=site, keep=keep, ids=IDS, width=width, options=options)
        cases.append(
            {
                "source": source,
                "options": options,
                "seed": str(seed),
                "site": site,
                "keep": keep,
                "width": width,
                # Numbers as text: some readers of JSON know no integers beyond 2**53.
                "words": {str(i): hex_words(row) for i, row in zip(IDS, bits.tolist(), strict=True)},
            }
        )
    text = json.dumps({"format": FORMAT, "cases": cases}, indent=1)
    PATH.write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
