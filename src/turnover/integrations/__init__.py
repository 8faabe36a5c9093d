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
| `sklearn_estimators.py`, `_tabular_mlp.py` | `TurnOverClassifier`, `TurnOverRegressor`; their network |
| `text_encoder.py` | pretrained encoders: frozen features, or a classifier to fine-tune |
| `hub.py` | data sets of the Hugging Face hub |
| `ray_executor.py` | `RayExecutor`: tiles on the nodes of a cluster |
| `annotation_tools.py` | likely label errors for Label Studio and Argilla, and the labels that people gave |
| `captum_influence.py` | `CaptumDataInfluence`: captum's `DataInfluence` over an `Influence` |
| `cleanlab_issues.py` | `LikelyLabelErrorIssues` and `HarmfulIssues` of cleanlab's Datalab |
| `trackers.py` | `open_tracker`: figures of a training to TensorBoard, MLflow or Weights & Biases |
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnover.errors import MissingExtraError

if TYPE_CHECKING:
    from .annotation_tools import (
        AnnotationItem,
        Annotations,
        argilla_records,
        label_studio_config,
        label_studio_tasks,
        read_annotations,
    )
    from .captum_influence import CaptumDataInfluence
    from .cleanlab_issues import HarmfulIssues, LikelyLabelErrorIssues
    from .hf_training import HFAfterEpoch, HFLearningCurves, TurnOverTrainer
    from .hub import HubData, load_hub_data
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
    from .text_encoder import TextClassifier, TextEncoder, text_classifier, token_numbers
    from .trackers import Tracker, TrackerName, check_tracker, open_tracker

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

_TEXT = ("transformers, accelerate, peft and datasets", "text")
# File, packages it needs, extra that installs them, names it offers.
_FILES = (
    ("hf_training", *_TEXT, ("HFAfterEpoch", "HFLearningCurves", "TurnOverTrainer")),
    (
        "annotation_tools",
        "nothing else",
        "cli",
        (
            "AnnotationItem",
            "Annotations",
            "argilla_records",
            "label_studio_config",
            "label_studio_tasks",
            "read_annotations",
        ),
    ),
    ("captum_influence", "captum", "captum", ("CaptumDataInfluence",)),
    ("cleanlab_issues", "cleanlab with Datalab", "cleanlab", ("HarmfulIssues", "LikelyLabelErrorIssues")),
    ("hub", *_TEXT, ("HubData", "load_hub_data")),
    ("learning_curves", *_TEXT, ("measure_curves",)),
    (
        "lightning_training",
        "lightning",
        "lightning",
        ("InstancesCallback", "LightningAfterEpoch", "LightningLearningCurves", "TurnOverModule", "repeat"),
    ),
    ("peft_lora", *_TEXT, ("lora_sites",)),
    ("ray_executor", "ray", "ray", ("RayExecutor",)),
    ("sklearn_estimators", "scikit-learn 1.6 or newer", "sklearn", ("TurnOverClassifier", "TurnOverRegressor")),
    ("text_encoder", *_TEXT, ("TextClassifier", "TextEncoder", "text_classifier", "token_numbers")),
    ("trackers", "nothing else", "cli", ("Tracker", "TrackerName", "check_tracker", "open_tracker")),
)


def __getattr__(name: str) -> Any:
    """Load a name's file when the name is first used; raise `MissingExtraError` where its packages are missing."""
    for file, packages, extra, names in _FILES:
        if name in names:
            try:
                return getattr(import_module(f".{file}", __name__), name)
            except ImportError as error:
                raise MissingExtraError(
                    f"{name} needs {packages} ({error}): pip install 'turnover[{extra}]'."
                ) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the offered names too, which are not loaded yet."""
    return sorted({*globals(), *__all__})
