"""One term for one thing: words that the project does not use, each with what it says instead."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Released formats keep their words; the changelog names what was renamed, and this file names them all.
EXEMPT = ("CHANGELOG.md", "tests/golden/", "tests/test_words.py")
INSTEAD = {
    r"never-trained|(ids|instances|masks) never trained": "null ids",
    r"predicted rightly|right on test": "accuracy",
    r"\bto beat:": "majority-class baseline",
    r"\bsurest": "most confident",
    r"stands? out|beyond noise": "significant",
    r"learned by heart|known better for having": "memorized",
    r"firmly doubted|\bdoubtful|disbelie|not believed|does not believe": "likely label error",
    r"pushed (it )?(there|toward|against)|\.pushed\b": "supporting / opposing examples",
    r"never (saw|learned) (it|them|the row)|unseen, it says": "held-out prediction; flipped subnetwork",
    r"the paper's estimat": "original estimator",
    r"\brivals?\b": "baselines",
    r"(?i)goodness": "score (higher is better)",
    # Texts of paths in score folders of 0.1.0 are "grown at the first site".
    r"\bgrown\b(?! at the first site)|\b(batch|query|rows?|one) grows?\b": "broadcast, expanded",
    r"tak(e|es|en|ing)( \w+)? up again": "resume",
    r"proof by retraining|retraining proof": "retraining check",
    r"\b(?!there\b|There\b)\w+ is no (?!longer\b|more\b|\w+ than\b|nearer\b|such\b)": "must be ..., got ...; is not a",
    r"\bone an? (row|query|batch|replica|site|step|model|class|folder|file|id|instance)\b": "per row",
    r"\ba (line|training|pass|step|model) an? (row|query|task|class|seed|checkpoint|experiment)\b": "per row",
    r"\b(once|value|loss|bytes|passes) an? (token|batch|chunk|row|query|pair|instance)\b": "per token",
    r"what masks say": "mask-bias correction",
    r"can be trusted": "what is measured: leaks, noise",
    r"\b_?[Rr]efus(e|es|ed|ing|al)(_|\b)": "reject",
    r"found out": "detect",
    r"\bspread of (the |their )?(null|scores|noise|replicas|two|trainings)": "standard deviation, standard error",
    r"[Cc]olour|COLOUR|[Mm]emoris|[Oo]ptimis|[Nn]ormalis|[Tt]okenis|[Bb]ehaviour|\b[Ll]abelled\b": "American spelling",
}
FOLDERS = ("src", "tests", "bench", "examples", "notebooks", "docs")
SUFFIXES = (".py", ".md", ".html", ".js", ".ipynb")
LINES = [
    (f"{path.relative_to(ROOT)}:{number}", line)
    for path in [*sorted(ROOT.glob("*.md")), *(p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*")))]
    if path.suffix in SUFFIXES and not path.relative_to(ROOT).as_posix().startswith(EXEMPT)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
]


@pytest.mark.parametrize("word", INSTEAD)
def test_one_term_for_one_thing(word):
    pattern = re.compile(word)
    matches = [f"{place}: {line.strip()[:100]}" for place, line in LINES if pattern.search(line)]
    assert not matches, "\n".join([f"{len(matches)} lines; say: {INSTEAD[word]}", *matches[:40]])
