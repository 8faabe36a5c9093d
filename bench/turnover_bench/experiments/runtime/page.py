"""The page and its figure: every sentence is made of the numbers of a run."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnover_bench.checks import markdown_table
from turnover_bench.experiments.encoders import encoder_words
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, agreements, graded, paragraphs

from .experiment import HEADLINE

_KOH_COLOR, _PEER = "#7570b3", "#1b9e77"
_OURS = ("#444444", "#d95f02", "#e6ab02", "#e7298a", "#a6761d", "#66a61e", "#1f78b4")
_MARKERS = "s^vo<>P"
_PAPER_RATIO = 17
_GREY: dict[str, Any] = {"textcoords": "offset points", "color": "#666666"}


def plot(result: Mapping[str, Any], file: Path) -> None:
    """Write both panels: seconds, and ratios to influence functions."""
    growth = result["growth"]
    sizes = [one["instances"] for one in growth]
    with drawn(file, (10, 4.8)) as figure:
        left, right = figure.subplots(1, 2)
        koh = [one["koh"][HEADLINE] for one in growth]
        left.plot(sizes, koh, color=_KOH_COLOR, marker="D", linewidth=2, label="influence functions (Koh+)")
        if "peer" in growth[0]:
            peer = [one["peer"] for one in growth]
            left.plot(sizes, peer, color=_PEER, marker="X", label=result["peer"]["name"])
        for place, name in enumerate(growth[0]["ours"]):
            look: dict[str, Any] = {
                "color": _OURS[place % len(_OURS)],
                "marker": _MARKERS[place % len(_MARKERS)],
                "markersize": 5,
                "label": _short_title(name),
            }
            left.plot(sizes, [one["ours"][name] for one in growth], **look)
            right.plot(sizes, [one["ratio"][HEADLINE][name] for one in growth], **look)
        right.axhline(_PAPER_RATIO, color="#999999", linestyle=":")
        right.annotate(f"the paper: {_PAPER_RATIO}", (sizes[0], _PAPER_RATIO), (-6, 4), fontsize=8, **_GREY)
        left.set(title="seconds for one target", ylabel="processor seconds, one thread")
        right.set(title="times faster than influence functions", ylabel="ratio")
        for panel in (left, right):
            panel.set(xlabel="training instances", xscale="log", yscale="log")
            panel.minorticks_off()
            tidy(panel, box=True)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def network_title(name: str) -> str:
    """Return what a way to compute our scores is called.

    Example:
        >>> network_title("1"), network_title("loop")
        ('engine, masks of the top block and output layer', "the authors' loop, all masks")
    """
    if name == "loop":
        return "the authors' loop, all masks"
    if name == "all":
        return "engine, all masks"
    if name == "0":
        return "engine, masks of the output layer"
    return f"engine, masks of the top {'block' if name == '1' else f'{name} blocks'} and output layer"


def _short_title(name: str) -> str:
    """Return the same in few words, for a legend.

    Example:
        >>> _short_title("1"), _short_title("0")
        ('engine, top block', 'engine, output layer')
    """
    long = network_title(name).replace("masks of the ", "")
    return long.removesuffix(" and output layer")


_KOH = {
    "han2020": "Han et al.: t = |D| / 4, r = 1, b = 8",
    "table1": "Table 1: rt = |D|, b = 8",
    "table1_single": "Table 1: rt = |D|, b = 1",
    "no_inverse": "gradients alone, no inverse",
}


def time_of(seconds: float) -> str:
    """Return seconds as a reader would say them.

    Example:
        >>> time_of(0.25), time_of(35), time_of(3600)
        ('0.25 s', '35 s', '60 min')
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    return f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:,.0f} min"


def times(ratio: float) -> str:
    """Return a ratio with as many digits as it deserves.

    Example:
        >>> times(6.04), times(123.4), times(12345.0)
        ('6.0', '123', '12,000')
    """
    if ratio < 10:
        return f"{ratio:.1f}"
    digits = max(0, len(str(int(ratio))) - 3) + (1 if ratio >= 1000 else 0)
    return f"{round(ratio, -digits):,.0f}"


PAPER_RATIO, GOAL = 17.0, 100.0
ALIKE = 0.95
"""Rank correlation with all masks from which a way with fewer of them counts as the same estimate."""


def loop_verdict(ratio: float) -> str:
    """Return one sentence on the ratio of the paper's own way to compute."""
    if ratio >= PAPER_RATIO:
        return (
            f"The authors' loop is {times(ratio)} times as fast as influence functions: the paper's 17 holds here too."
        )
    if ratio > 1:
        return (
            f"The authors' loop is {times(ratio)} times as fast as influence functions: faster, but less than the "
            "paper's 17. A likely reason: gradients of one row at a time leave most of a GPU idle, and a processor "
            "thread does not."
        )
    return f"The authors' loop is not faster than influence functions here ({times(ratio)} times)."


def fast_verdict(ratios: Mapping[str, float], alike: Collection[str]) -> str:
    """Return which ways of the engine reach the paper's ratio, which the goal of 100, and which rank otherwise."""
    engine = {name: ratio for name, ratio in ratios.items() if name != "loop"}
    paper = [name for name, ratio in engine.items() if ratio >= PAPER_RATIO]
    goal = [name for name in paper if engine[name] >= GOAL]
    if not paper:
        return "No way of the engine reaches the paper's 17 times."
    text = f"The paper's 17 times is reached or passed by: {_listed(paper, engine)}"
    text += f"; 100 times by: {_listed(goal, engine)}." if goal else "; 100 times by none."
    others = [name for name in paper if name not in alike]
    if not others:
        return text
    which = "all of these" if others == paper else f"those of {_listed(others, engine)}"
    return f"{text} But {which} rank instances otherwise than all masks do (rank correlation below {ALIKE})."


def equal_verdict(ratios: Mapping[str, float], kept_features: float) -> str:
    """Return one sentence on influence functions that are restricted to the parameters our masks belong to.

    `kept_features` is the ratio for the output layer where its inputs are kept from training.
    """
    least = min(ratios, key=lambda name: ratios[name])
    side = "faster" if ratios[least] > 1 and kept_features > 1 else "not always faster"
    return (
        f"On equal parameters turn-over dropout is {side}: {_listed(list(ratios), ratios)}; and {times(kept_features)} "
        "times for the output layer where its features are kept from training."
    )


def _listed(names: Sequence[str], ratios: Mapping[str, float]) -> str:
    return ", ".join(f"{network_title(name).removeprefix('engine, ')} ({times(ratios[name])})" for name in names)


_PAPER = "35 s against 10 min, 17 times (App. “Runtime”, BERT-base, one GPU)"
_FAR_OFF = 0.25  # by how much the extrapolation may miss what is measured from end to end


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown and write its plot into `folder`."""
    plot(result, folder / "runtime.svg")
    parts = [_head(result), _ratios(result), _growth(result), _depends(result), _equal(result), _peer(result)]
    return paragraphs(*parts, _counted(result))


_RULE = f"{PAPER_RATIO:.0f} times as fast or more; in part: faster"


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's ratio beside ours: for its own loop, the engine's fastest way, and on equal parameters."""
    here = result["at"]
    ratios, equal = here["ratio"][HEADLINE], here["equal_ratio"]
    alike = [name for name, agreement in result["costs"]["agreement"].items() if agreement >= ALIKE]
    fastest = max(alike, key=lambda name: ratios[name])
    what = f"MNLI, {here['instances']:,} instances on one target: turn-over dropout"
    setting = f"{_encoder(result)} with adapters, one seed, one thread, influence functions extrapolated from a part"
    loop, best = (
        f"{time_of(here['ours'][name])} against {time_of(here['koh'][HEADLINE])}, {times(ratios[name])} times as fast"
        for name in ("loop", fastest)
    )
    return [
        Finding(
            f"{what} (two passes per instance) against influence functions",
            _PAPER,
            loop,
            setting,
            loop_verdict(ratios["loop"]),
            "turn-over dropout, with two forward passes per instance, is 17 times as fast as influence functions",
            graded(ratios["loop"] >= PAPER_RATIO, in_part=ratios["loop"] > 1),
            _RULE,
        ),
        Finding(
            f"{what} ({network_title(fastest)}) against influence functions",
            _PAPER,
            best,
            setting,
            fast_verdict(ratios, alike),
            "turn-over dropout, in our fastest implementation with much the same ranks (rank correlation of "
            f"{ALIKE} or more), is 17 times as fast as influence functions",
            graded(ratios[fastest] >= PAPER_RATIO, in_part=ratios[fastest] > 1),
            _RULE,
        ),
        Finding(
            "the same, influence functions restricted to the parameters that the masks belong to",
            "–",
            f"{times(min(equal.values()))} to {times(max(equal.values()))} times as fast, with equal parameters",
            setting,
            equal_verdict(equal, result["head_alone"]["seconds"] / here["ours"]["0"]),
        ),
    ]


def _head(result: Mapping[str, Any]) -> Iterable[str]:
    here, tokens = result["at"], result["tokens"]
    yield "# Runtime: 10,000 instances of MNLI on one target"
    yield (
        f"{_encoder(result)} with adapters of {result['setting']['adapter']} units; the influence of "
        f"{here['instances']:,} training instances on one target of {tokens['target']} tokens (the instances have "
        f"{tokens['mean']:.0f} on average). Trained parameters, for both methods: "
        f"{result['costs']['parameters']['all']:,}. Processor seconds of one thread; all methods took turns in the "
        f"same run{_rounds(result['setting']['rounds'])}."
    )
    yield from agreements(findings(result))


def _ratios(result: Mapping[str, Any]) -> Iterable[str]:
    here, costs = result["at"], result["costs"]
    koh = here["koh"][HEADLINE]
    yield f"Influence functions (Koh+, in the setting of Han et al.) take {time_of(koh)} for one target."
    rows = [
        [
            network_title(name),
            time_of(seconds),
            times(here["ratio"][HEADLINE][name]),
            "–" if name == "loop" else f"{costs['agreement'][name]:.3f}",
        ]
        for name, seconds in here["ours"].items()
    ]
    head = ["turn-over dropout", "seconds", "times faster", "rank correlation with all masks"]
    yield markdown_table(head, rows)
    yield (
        "With fewer masks the scores differ: they are those of the network above. The rank correlation shows how close "
        "they are, of "
        f"{result['setting']['engine']:,} instances on this target; [real models](real_models.md) shows how much "
        "of such scores is signal."
    )


def _growth(result: Mapping[str, Any]) -> Iterable[str]:
    names = list(result["at"]["ours"])
    yield "## How the ratio grows"
    yield "![seconds and ratios against the number of instances](runtime.svg)"
    rows = [
        [f"{one['instances']:,}", time_of(one["koh"][HEADLINE]), *(times(_ratio(one, name)) for name in names)]
        for one in result["growth"]
    ]
    yield markdown_table(["instances", "Koh+", *map(network_title, names)], rows)
    first, last = result["growth"][0], result["growth"][-1]
    doubled = [name for name in names if _ratio(last, name) > 2 * _ratio(first, name)]
    yield (
        "Both methods are linear in the instances, so ratios grow only as more of them share the fixed costs, such as "
        f"the {result['null_ids']:,} null ids that the engine scores besides. From "
        f"{first['instances']:,} to {last['instances']:,} instances they grow more than twofold for "
        f"{_listed_titles(doubled)}."
    )


def _depends(result: Mapping[str, Any]) -> Iterable[str]:
    here = result["at"]
    yield "## How much work influence functions do"
    yield (
        "Their seconds are those of r·t steps with b rows each, and of one gradient per training row. The ten minutes "
        "of the paper are those of Han et al. 2020, whose published script has t = |D| / 4, r = 1, b = 8; the paper's "
        "Table 1 says that rt is about |D|. Without any inverse the gradients alone remain."
    )
    rows = [
        [_KOH[name], time_of(seconds), *(times(here["ratio"][name][mine]) for mine in ("loop", "all", "0"))]
        for name, seconds in here["koh"].items()
    ]
    head = ["influence functions", "seconds", "against the loop", "against all masks", "against the output layer"]
    yield markdown_table(head, rows)


def _equal(result: Mapping[str, Any]) -> Iterable[str]:
    here, parameters, alone = result["at"], result["costs"]["parameters"], result["head_alone"]
    yield "## Equal parameters"
    yield (
        "Scores by the masks of the top blocks concern these blocks' parameters alone. Influence functions can be "
        "restricted to the same ones, and are faster then too, since they need no gradient below."
    )
    rows = [
        [
            _part(name),
            f"{parameters[name]:,}",
            time_of(seconds),
            time_of(here["ours"][name]),
            times(here["equal_ratio"][name]),
        ]
        for name, seconds in here["equal_koh"].items()
    ]
    yield markdown_table(["parameters of", "count", "Koh+ on them", "engine", "times faster"], rows)
    yield (
        "For the output layer alone there is a cheaper way yet: if the features below it are kept from training, "
        f"influence functions of {here['instances']:,} instances take {time_of(alone['seconds'])}, "
        f"{times(alone['seconds'] / here['ours']['0'])} times the engine's seconds; if they are not, computing them "
        f"takes {time_of(alone['features'])} more. The engine needs no feature of a training instance, only its id."
    )


def _peer(result: Mapping[str, Any]) -> Iterable[str]:
    yield "## Influence functions of kronfluence"
    peer, here = result["peer"], result["at"]
    if "missing" in peer:
        yield f"Not measured: {peer['missing']}."
        return
    sizes = _sizes([size for size, _ in peer["points"]])
    cells = "; ".join(f"{times(ratio)} for {network_title(name)}" for name, ratio in here["peer_ratio"].items())
    yield (
        f"{peer['name']} fits factors of the curvature once for all targets, in place of a recursion for each; "
        f"fitting and one target take {time_of(here['peer'])} for {here['instances']:,} instances, extrapolated from "
        f"{sizes}. Ratio to ours: {cells}."
    )


def _counted(result: Mapping[str, Any]) -> Iterable[str]:
    setting, check, costs = result["setting"], result["check"], result["costs"]["koh"]["all"]
    good = "it holds" if abs(check["ratio"] - 1) <= _FAR_OFF else "it is off by more than a quarter"
    yield "## How it is counted"
    yield (
        f"- Influence functions: {setting['koh_rows']} gradients and {setting['koh_steps']} steps per round are timed, "
        f"of rows whose lengths are spread as those of all, and multiplied: {1e3 * costs['row']:.0f} ms per gradient, "
        f"{1e3 * costs['step 8']:,.0f} ms per step of 8 rows. From end to end, {check['instances']} instances took "
        f"{check['ratio']:.2f} times what this says: {good}."
    )
    yield (
        "- Their rows are padded to the longest of a batch only; Han et al. padded all to 128 tokens, which is slower."
    )
    yield (
        f"- The authors' loop: the target repeated {setting['loop_batch']} times, once with the masks of as many "
        f"instances and once with them flipped; {setting['loop_batches']} times per round, and multiplied."
    )
    yield (
        f"- The engine is timed as users call it: it scores {result['null_ids']:,} null ids besides, for "
        f"standard errors, which the loop has not. It is timed at {setting['engine']:,} instances and multiplied by "
        f"the number of ids; with masks of the output layer alone, at {_sizes(setting['engine_last'])} instances."
    )
    yield (
        f"- The model was trained on {min(setting['trained'], setting['instances']):,} instances for one epoch; "
        "seconds do not depend on what was learned. All parts together took "
        f"{result['spent']['seconds'] / 60:.1f} processor minutes, without training."
    )


def _listed_titles(names: Sequence[str]) -> str:
    return "; ".join(map(network_title, names)) if names else "none"


def _rounds(rounds: int) -> str:
    return "" if rounds == 1 else f", and the smallest of {rounds} rounds counts"


def _ratio(one: Mapping[str, Any], name: str) -> float:
    return one["ratio"][HEADLINE][name]


def _encoder(result: Mapping[str, Any]) -> str:
    setting = result["setting"]
    name = encoder_words(setting["model"], setting["blocks"])
    return "MiniLM (6 blocks of 384)" if name == "MiniLM" else name


def _part(name: str) -> str:
    return {"all": "all adapters and output layer", "0": "output layer"}.get(
        name, f"top {'block' if name == '1' else f'{name} blocks'} and output layer"
    )


def _sizes(sizes: Sequence[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)
