"""The mask recipe beside the checkpoints of a Trainer.

The state dict of a wrapped model carries its recipe. PEFT writes the weights of its adapters alone, so a checkpoint of
a PEFT model would come back under any masks: a small file of its own keeps the recipe there.
"""

from pathlib import Path

from torch import nn

from turnover.errors import RecipeMismatchError, SavedModelError
from turnover.layers import RECIPE_KEY, find_root, masking_of, to_tensor
from turnover.wrapping import read_tensors, write_tensors

RECIPE_FILE = "turnover_recipe.safetensors"


def write_recipe(model: nn.Module, folder: str) -> None:
    """Write the recipe of a wrapped model, and what it has learned about itself, into a checkpoint."""
    root = find_root(model)
    if root is not None:
        masking = masking_of(root)
        write_tensors(Path(folder) / RECIPE_FILE, {RECIPE_KEY: to_tensor(masking.recipe, masking.learned)})


def adopt_recipe(model: nn.Module, folder: str) -> None:
    """Take over what the model of a checkpoint had learned about itself, or raise where its masks are others."""
    root = find_root(model)
    if root is None:
        return
    file = Path(folder) / RECIPE_FILE
    if file.is_file():
        try:
            tensor = read_tensors(file)[RECIPE_KEY]
        except (OSError, KeyError, ValueError) as error:
            raise SavedModelError(
                f"{str(file)!r} is damaged: {error}. Resume from another checkpoint, or train from the start."
            ) from error
        masking_of(root).adopt(tensor, whence=f"the checkpoint {folder!r} comes from a model with")
    elif getattr(model, "peft_config", None):
        raise RecipeMismatchError(
            f"the checkpoint {folder!r} of a PEFT model does not say under which masks it was trained (no "
            f"{RECIPE_FILE}), as a checkpoint of a plain Trainer does not: rows that it learned without masks would be "
            "everywhere in the network. Resume from a checkpoint that TurnOverTrainer wrote, or train from the start."
        )
