"""Wrong labels among handwritten digits: cleanlab with out-of-sample predictions of one training, or of five.

Run: python examples/cleanlab_digits.py --seeds 3
Needs: pip install 'turnover[sklearn,cleanlab]'
"""

import argparse
import time

import numpy as np
from cleanlab.filter import find_label_issues
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import turnover


def one_training(x, y, seed, epochs):
    """Return what the halves of one training that never saw a row predict for it."""
    return turnover.TurnOverClassifier(epochs=epochs, random_state=seed).fit(x, y).out_of_sample_.probs


def five_folds(classifier, x, y):
    """Return the predictions of five trainings, each for the fifth of the rows that it left out."""
    return cross_val_predict(classifier, x, y, cv=5, method="predict_proba")


def main(seeds=1, epochs=40, rows=None):
    """Change 10 % of the labels, look for them in three ways, and return what was found."""
    found = []
    for seed in range(seeds):
        x, true = (part[:rows] for part in load_digits(return_X_y=True))
        rng = np.random.default_rng(seed)
        wrong = rng.choice(len(true), len(true) // 10, replace=False)
        y = true.copy()
        y[wrong] = (y[wrong] + rng.integers(1, 10, len(wrong))) % 10
        same = turnover.TurnOverClassifier(epochs=epochs, random_state=seed)
        plain = make_pipeline(StandardScaler(), MLPClassifier((512,), random_state=seed, max_iter=500))
        ways = {
            "one training, out of sample": lambda: one_training(x, y, seed, epochs),  # noqa: B023
            "5 folds, same network": lambda: five_folds(same, x, y),  # noqa: B023
            "5 folds, MLPClassifier": lambda: five_folds(plain, x, y),  # noqa: B023
        }
        for way, predict in ways.items():
            start = time.perf_counter()
            issues = find_label_issues(y, predict())
            right = int((issues & (y != true)).sum())
            found.append({"seed": seed, "way": way, "marked": int(issues.sum()), "right": right, "wrong": len(wrong)})
            took = time.perf_counter() - start
            print(f"seed {seed}  {way:28} {right} of {len(wrong)} found, {issues.sum()} marked, {took:.0f} s")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    main(seeds=parser.parse_args().seeds)
