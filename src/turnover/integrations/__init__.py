"""Other libraries' models, trainers, estimators and interfaces.

Owns: the files that know transformers, peft, lightning, scikit-learn, ray, cleanlab, captum, trackers and annotation
tools. Offers: the names below, each loaded when it is first used, because each needs another package; where that is
missing, the error names the extra to install. Must not know: applications, runs, the command line.

| file | content |
| --- | --- |
| `hf_training.py` | `TurnOverTrainer`, `HFLearningCurves` and `HFAfterEpoch` for Hugging Face |
| `lightning_training.py` | `TurnOverModule`, `InstancesCallback`, `LightningLearningCurves`, `LightningAfterEpoch` |
| `learning_curves.py` | keep, flip and validation loss in any training loop |
| `peft_lora.py` | the rank dimension of LoRA layers as sites |
| `hub.py` | data sets of the Hugging Face hub, and pretrained encoders: frozen features, or a classifier to fine-tune |
| `sklearn_estimators.py` | `TurnOverClassifier`, `TurnOverRegressor` |
| `ray_executor.py` | `RayExecutor`: tiles on the nodes of a cluster |
| `captum_influence.py` | `CaptumDataInfluence`: captum's `DataInfluence` over an `Influence` |
| `cleanlab_issues.py` | `LikelyLabelErrorIssues` and `HarmfulIssues` of cleanlab's Datalab |
| `tools.py` | TensorBoard, MLflow, Weights & Biases; likely label errors to Label Studio and Argilla and back |
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnover.errors import MissingExtraError

if TYPE_CHECKING:
    from .captum_influence import CaptumDataInfluence
    from .cleanlab_issues import HarmfulIssues, LikelyLabelErrorIssues
    from .hf_training import HFAfterEpoch, HFLearningCurves, TurnOverTrainer
    from .hub import HubData, TextClassifier, TextEncoder, load_hub_data, text_classifier, token_numbers
    from .learning_curves import measure_curves
    from .lightning_training import (
        InstancesCallback,
        LightningAfterEpoch,
        LightningLearningCurves,
        TurnOverModule,
        repeat,
    )
    from .peft_lora import lora_sites
    from .ray_executor import RayExecutor
    from .sklearn_estimators import TurnOverClassifier, TurnOverRegressor
    from .tools import (
        AnnotationItem,
        Annotations,
        Tracker,
        TrackerName,
        argilla_records,
        check_tracker,
        label_studio_config,
        label_studio_tasks,
        open_tracker,
        read_annotations,
    )

__all__ = [
    "AnnotationItem",
    "Annotations",
    "CaptumDataInfluence",
    "HFAfterEpoch",
    "HFLearningCurves",
    "HarmfulIssues",
    "HubData",
    "InstancesCallback",
    "LightningAfterEpoch",
    "LightningLearningCurves",
    "LikelyLabelErrorIssues",
    "RayExecutor",
    "TextClassifier",
    "TextEncoder",
    "Tracker",
    "TrackerName",
    "TurnOverClassifier",
    "TurnOverModule",
    "TurnOverRegressor",
    "TurnOverTrainer",
    "argilla_records",
    "check_tracker",
    "label_studio_config",
    "label_studio_tasks",
    "load_hub_data",
    "lora_sites",
    "measure_curves",
    "open_tracker",
    "read_annotations",
    "repeat",
    "text_classifier",
    "token_numbers",
]

_NEEDS_NOTHING = ("torch", "all")
# By file: the packages that it imports, the extra that installs them, the names that it offers.
_FILES = {
    "captum_influence": ("captum", "captum", ("CaptumDataInfluence",)),
    "cleanlab_issues": ("cleanlab with Datalab", "cleanlab", ("HarmfulIssues", "LikelyLabelErrorIssues")),
    "hf_training": (
        "transformers, accelerate, peft and datasets",
        "text",
        ("HFAfterEpoch", "HFLearningCurves", "TurnOverTrainer"),
    ),
    "hub": (
        *_NEEDS_NOTHING,
        ("HubData", "TextClassifier", "TextEncoder", "load_hub_data", "text_classifier", "token_numbers"),
    ),
    "learning_curves": (*_NEEDS_NOTHING, ("measure_curves",)),
    "lightning_training": (
        "lightning",
        "lightning",
        ("InstancesCallback", "LightningAfterEpoch", "LightningLearningCurves", "TurnOverModule", "repeat"),
    ),
    "peft_lora": (*_NEEDS_NOTHING, ("lora_sites",)),
    "ray_executor": ("ray", "ray", ("RayExecutor",)),
    "sklearn_estimators": ("scikit-learn 1.6 or newer", "sklearn", ("TurnOverClassifier", "TurnOverRegressor")),
    "tools": (
        *_NEEDS_NOTHING,
        (
            "AnnotationItem",
            "Annotations",
            "Tracker",
            "TrackerName",
            "argilla_records",
            "check_tracker",
            "label_studio_config",
            "label_studio_tasks",
            "open_tracker",
            "read_annotations",
        ),
    ),
}


def __getattr__(name: str) -> Any:
    """Load a name's file when the name is first used; raise `MissingExtraError` where its packages are missing."""
    for file, (packages, extra, names) in _FILES.items():
        if name in names:
            try:
                return getattr(import_module(f".{file}", __name__), name)
            except ImportError as error:
                raise MissingExtraError(
                    f"{name} needs {packages} ({error}): pip install 'turnover[{extra}]'."
                ) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
