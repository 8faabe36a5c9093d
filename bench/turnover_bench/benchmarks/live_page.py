"""Live answers: the training rows behind a new sentence, asked over HTTP while a person waits.

The model is the frozen MiniLM with a masked head of 8 replicas, on 10,000 rows of SST-2. An answer is compared with one
plain prediction of the same sentence (encoder and head) in the same process: both are measured in turns. Then 8 clients
ask at once, and every answer is compared with that of the library.
"""

import http.client
import json
import os
import statistics
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from turnover.applications import explain
from turnover.layers import replicas_of
from turnover.runs import Run, RunConfig, start_run
from turnover.ui.web import LiveServer, open_server
from turnover_bench.experiments.datasets.texts import minilm_folder

TRAINING_ROWS = 10_000
_FOLDER = Path(__file__).parents[3] / "runs" / "live_page"
_ALONE, _TOGETHER, _CLIENTS = 50, 200, 8
_TOLERANCE = 1e-3


def main() -> None:
    """Train once, then measure."""
    data = Path(os.environ.get("TURNOVER_DATA") or "data") / "sst2"
    if not (data / "train.tsv").is_file():
        print(f"live page: no {data / 'train.tsv'}; set TURNOVER_DATA to the folder of data sets")
        return
    run = live_run(data)
    sentences = [run.rows.values[place] for place in run.places("validation")]
    began = time.perf_counter()
    with open_server(run, port=0, most_waiting=64, seconds=120) as server:
        while (state := _asked(server, "GET", "/api/state")[1])["state"] == "warming up":
            time.sleep(0.2)
        print(f"live page: {len(run.places('train')):,} training rows, {replicas_of(run.model)} replicas, MiniLM")
        print(f"  {state['state']} after {time.perf_counter() - began:.1f} s; load average {os.getloadavg()[0]:.1f}")
        _alone(run, server, sentences[:_ALONE])
        _together(run, server, sentences[_ALONE : _ALONE + 50])


def live_run(data: Path) -> Run:
    """Return the run that is asked; trained the first time."""
    config = RunConfig(
        str(data / "train.tsv"),
        validation_data=str(data / "dev.tsv"),
        test=0.0,
        max_rows=TRAINING_ROWS,
        model=str(minilm_folder()),
    )
    return start_run(config, _FOLDER)


def _alone(run: Run, server: LiveServer, sentences: list[str]) -> None:
    """Measure answers to one client beside plain predictions, in turns."""
    asked, plain = [], []
    for sentence in sentences:
        began = time.perf_counter()
        status, _ = _asked(server, "POST", "/api/explain", {"text": sentence, "k": 10})
        asked.append(time.perf_counter() - began)
        assert status == 200
        began = time.perf_counter()
        run.predict([sentence])
        plain.append(time.perf_counter() - began)
    ratios = [one / other for one, other in zip(asked, plain, strict=True)]
    last = statistics.quantiles(asked, n=20, method="inclusive")[-1]
    print(f"  {len(sentences)} answers: median {statistics.median(asked):.3f} s, p95 {last:.3f} s")
    print(
        f"  plain forward pass: median {statistics.median(plain):.4f} s; ratio {statistics.median(ratios):.1f} (median)"
    )


def _together(run: Run, server: LiveServer, sentences: list[str]) -> None:
    """Ask from many clients at once, and compare every answer with that of the library."""
    by_library = {sentence: _library(run, sentence) for sentence in sentences}
    questions = [sentences[number % len(sentences)] for number in range(_TOGETHER)]
    outcomes: Counter[str] = Counter()
    before, began = _resident(), time.perf_counter()
    took: list[float] = []
    lock = threading.Lock()

    def ask(sentence: str) -> None:
        start = time.perf_counter()
        try:
            status, answer = _asked(server, "POST", "/api/explain", {"text": sentence, "k": 10})
            outcome = "right" if status == 200 and _same(answer, by_library[sentence]) else f"wrong (status {status})"
        except OSError as error:
            outcome = f"lost ({error})"
        with lock:
            outcomes[outcome] += 1
            took.append(time.perf_counter() - start)

    with ThreadPoolExecutor(_CLIENTS) as clients:
        list(clients.map(ask, questions[: _TOGETHER // 2]))
        middle = _resident()
        list(clients.map(ask, questions[_TOGETHER // 2 :]))
    seconds = time.perf_counter() - began
    told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    pace = f"{_TOGETHER / seconds:.1f} a second, the slowest {max(took):.2f} s"
    print(f"  {_TOGETHER} questions of {_CLIENTS} clients: {told}; {pace}")
    print(f"  memory: {before:.0f} MB before, {middle:.0f} MB after half, {_resident():.0f} MB at the end")


def _library(run: Run, sentence: str) -> dict[str, Any]:
    found = explain(run.influence, run.inputs([sentence]), k=10, same_label="supporting")[0]
    return {
        "predicted": run.label_names[found.predicted],
        "supporting": [(example.id, example.score) for example in found.supporting],
        "opposing": [(example.id, example.score) for example in found.opposing],
    }


def _same(answer: dict[str, Any], by_library: dict[str, Any]) -> bool:
    """Tell whether an answer has the label, rows and scores of the library's."""
    if answer["predicted"] != by_library["predicted"]:
        return False
    for side in ("supporting", "opposing"):
        found = [(one["row"], one["score"]) for one in answer[side]]
        scale = max((abs(score) for _, score in by_library[side]), default=0.0)
        if [row for row, _ in found] != [row for row, _ in by_library[side]] or any(
            abs(one - other) > _TOLERANCE * scale for (_, one), (_, other) in zip(found, by_library[side], strict=True)
        ):
            return False
    return True


def _asked(server: LiveServer, method: str, path: str, content: Any = None) -> tuple[int, Any]:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=180)
    try:
        body = None if content is None else json.dumps(content)
        client.request(method, path, body, {"Content-Type": "application/json"})
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        client.close()


def _resident() -> float:
    import psutil

    return psutil.Process().memory_info().rss / 2**20
