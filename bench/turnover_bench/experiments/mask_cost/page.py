"""The page: what masks cost by width and by what else is varied."""

from pathlib import Path
from statistics import mean
from typing import Any

from turnover_bench.checks import markdown_table
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, agreements, paragraphs, seeds_words, spread

from .config import BASE, KINDS, LITTLE, Kind
from .run import cost

_FIGURE = "mask_cost.svg"
_COLORS: dict[Kind, str] = {"mlp": "#8c8c8c", "vgg": "#1f4e9c", "resnet": "#c8102e"}
_PLACES = {"last": "last site", "half": "later half of the sites", "all": "all sites"}


def page(result: dict[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    how = result["setting"]
    lines = [
        "# When masks cost little accuracy",
        "Networks are trained with masks and without, from the same weights and for as many steps: "
        f"{_trained_on(result)}. *Cost* is the accuracy without masks minus that of the full network with masks, in "
        "points, on held-out rows; where there is BatchNorm, after `turnover.recalibrate`. *Width* is that of the last "
        "hidden layer; earlier ones of images have a half and a quarter of it. "
        f"{seeds_words(how['seeds']).capitalize()}.",
        f"![Cost of masks by width, and what changes it]({_FIGURE})",
        *agreements(findings(result)),
    ]
    for kind, title in KINDS.items():
        if kind not in result["kinds"]:
            continue
        rows = [_row(point) for point in result["kinds"][kind]]
        head = ["width", "masks on", "keep", "rows", "epochs", "without masks", "with masks", "recalibrated", "cost"]
        lines += [f"## {title}", markdown_table(head, rows)]
    if _has_images(result):
        lines += ["## Kept and flipped subnetworks after `turnover.recalibrate`", _views(result)]
    return paragraphs(lines)


def _trained_on(result: dict[str, Any]) -> str:
    how = result["setting"]
    told = f"an MLP on {how['rows'][0]:,} digits ({how['epochs'][0]} epochs)"
    if not _has_images(result):
        return f"{told}; `SIZE=medium` has networks for images, too"
    return (
        f"{told}, a VGG-like and a ResNet-like network on {how['rows'][1]:,} images of CIFAR-10 of {how['pixels']} × "
        f"{how['pixels']} pixels ({how['epochs'][1]} epochs)"
    )


def _has_images(result: dict[str, Any]) -> bool:
    return len(result["kinds"]) > 1


def findings(result: dict[str, Any]) -> list[Finding]:
    """Return from which width on masks cost less than two points, and what else makes them cheap."""
    how = result["setting"]
    images = f", {how['rows'][1]:,} images of {how['pixels']} × {how['pixels']} pixels" if _has_images(result) else ""
    about = f"{how['rows'][0]:,} digits{images}"
    return [
        Finding(
            f"width from which on masks on {_PLACES[place]} cost less than {LITTLE:g} points",
            "–",
            ", ".join(f"{kind} {_width(result['law'][f'{kind}, {place}']['enough'])}" for kind in result["kinds"]),
            f"{about}, {seeds_words(how['seeds'])}",
            _sentence(result, place),
        )
        for place in ("last", "all")
    ]


def _width(enough: int | None) -> str:
    return "none tried" if enough is None else str(enough)


def _sentence(result: dict[str, Any], place: str) -> str:
    told = []
    for kind in result["kinds"]:
        points = result["law"][f"{kind}, {place}"]["points"]
        lowest = min(points, key=lambda point: point[1])
        between = (
            f"{lowest[1]:.1f} at {lowest[0]} (the least) and " if lowest not in (points[0], points[-1]) else "and "
        )
        told.append(
            f"{kind} {points[0][1]:.1f} points at {points[0][0]}, {between}{points[-1][1]:.1f} at {points[-1][0]}"
        )
    return f"Masks on {_PLACES[place]} cost, by width: {'; '.join(told)}."


def _row(point: dict[str, Any]) -> list[str]:
    setting, seeds = point["setting"], point["seeds"]
    again = spread([100 * one["recalibrated"] for one in seeds], ".1f") if "recalibrated" in seeds[0] else "–"
    accuracies = [spread([100 * one[name] for one in seeds], ".1f") for name in ("plain", "accuracy")]
    return [
        str(setting["width"]),
        _PLACES[setting["place"]],
        f"{setting['keep']:g}",
        f"{setting['rows']:.0%}",
        f"× {setting['epochs']:g}",
        *accuracies,
        again,
        f"{cost(point):+.1f}",
    ]


def _views(result: dict[str, Any]) -> str:
    """Return what full-view statistics do to the views that scores are made of, over all settings."""
    some = [one for kind in ("vgg", "resnet") for point in result["kinds"][kind] for one in point["seeds"]]
    change = {view: 100 * mean(one[f"{view}_recalibrated"] - one[view] for one in some) for view in ("keep", "flip")}
    full = 100 * mean(one["recalibrated"] - one["accuracy"] for one in some)
    return (
        f"Over all {len(some)} networks with BatchNorm, statistics of the full view change the accuracy of the full "
        f"network on held-out rows by {full:+.1f} points, and on trained rows that of kept subnetworks by "
        f"{change['keep']:+.1f} and of flipped ones by {change['flip']:+.1f}."
    )


def _plot(result: dict[str, Any], file: Path) -> None:
    with drawn(file, (9.6, 4.2), font=9) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        for kind in result["kinds"]:
            for place, style in (("last", "-"), ("all", "--")):
                points = result["law"][f"{kind}, {place}"]["points"]
                label = f"{kind}, {_PLACES[place]}"
                left.plot(*zip(*points, strict=True), style, marker="o", markersize=3, color=_COLORS[kind], label=label)
        left.axhline(LITTLE, color="#2e8b57", linestyle=":", linewidth=1.2, label=f"{LITTLE:g} points")
        left.set_xscale("log", base=2)
        left.set(xlabel="width of the last hidden layer", ylabel="cost of masks, points of accuracy")
        left.legend(frameon=False, fontsize=7, handlelength=3)
        base = {kind: _at_base(result, kind) for kind in result["kinds"]}
        names = list(base["mlp"])
        for shift, kind in enumerate(result["kinds"]):
            places = [place + (shift - 1) * 0.27 for place in range(len(names))]
            right.barh(places, [base[kind][name] for name in names], height=0.25, color=_COLORS[kind], label=kind)
        right.axvline(LITTLE, color="#2e8b57", linestyle=":", linewidth=1.2)
        right.set_yticks(range(len(names)), names)
        right.invert_yaxis()
        right.set(xlabel=f"cost at width {BASE.width}, points")
        for panel in (left, right):
            tidy(panel)


def _at_base(result: dict[str, Any], kind: str) -> dict[str, float]:
    """Return the cost of every setting of the base width, by what it varies."""
    found = {}
    for point in result["kinds"][kind]:
        setting = point["setting"]
        if setting["width"] == BASE.width:
            words = [
                *([f"keep {setting['keep']:g}"] if setting["keep"] != BASE.keep else []),
                *([f"{setting['rows']:.0%} of the rows"] if setting["rows"] != BASE.rows else []),
                *([f"{setting['epochs']:g} times the epochs"] if setting["epochs"] != BASE.epochs else []),
            ]
            found[", ".join([_PLACES[setting["place"]], *words])] = cost(point)
    return found
