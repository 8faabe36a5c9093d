"""Methods of other packages on a recipe's rows and trained weights, with the API of all baselines.

Of captum, traker, kronfluence and dattri. A package is imported where it is used.
"""

import contextlib
import importlib.metadata
import importlib.util
import io
import logging
import shutil
import tempfile
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from turnover.batches import default_loss
from turnover.errors import MissingExtraError
from turnover.scores import Scores
from turnover.storage import check_memory
from turnover.training import Step, TrainingRecipe
from turnover_bench.errors import BaselineError

from ._questions import Baseline, Question

State = dict[str, Tensor]
_GRADIENT_BYTES = 4e8  # of rows whose gradients are held at once
_MOST_ROWS = 500


def is_installed(package: str) -> bool:
    """Tell whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def check_installed(package: str, distribution: str, *, who: str) -> None:
    """Raise where a package is missing; its distribution may have another name.

    Raises:
        MissingExtraError: it is not installed.
    """
    if not is_installed(package):
        raise MissingExtraError(f"{who} needs the package {distribution}: pip install {distribution}.")


class PackageMethod(Baseline):
    """A method of another package, on trained weights of the recipe's model.

    Positive: the row lowers the query's loss, or is more similar. Units are the package's own. Inputs must be one
    tensor and targets class numbers.

    Args:
        recipe: rows, loss and model.
        weights: state dicts: checkpoints of one training, the last at its end (see `training_weights`), or ends of
            several trainings, where a method takes them.
        seed: of what the method draws.

    Attributes:
        weights: as given.
        has_self_influence: whether it scores rows on themselves.
    """

    package: ClassVar[str]
    distribution: ClassVar[str]
    title: ClassVar[str]
    has_self_influence: ClassVar[bool] = True

    def __init__(self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0) -> None:
        check_installed(self.package, self.distribution, who=type(self).__name__)
        super().__init__(recipe, None, None)
        if not isinstance(recipe.inputs, Tensor) or recipe.targets.is_floating_point():
            raise BaselineError(
                f"{type(self).__name__} takes inputs as one tensor and class numbers as targets. For other rows there "
                "are turnover_bench.baselines.TracIn and InfluenceFunctions."
            )
        if not weights:
            raise BaselineError("`weights` must be one state dict or more, got none. Give training_weights(recipe).")
        self.weights, self._seed = tuple(weights), seed
        self._rows = TensorDataset(recipe.inputs, recipe.targets)
        self._model = self._untrained()
        self._model.load_state_dict(self.weights[-1])

    @cached_property
    def scratch(self) -> str:
        """Return a folder that lasts as long as this object."""
        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    @property
    def storage_bytes(self) -> int:
        """Return the bytes of the weights, and of what the package keeps in files or in memory to answer questions."""
        weights = sum(value.nbytes for state in self.weights for value in state.values())
        files = sum(file.stat().st_size for file in Path(self.scratch).rglob("*") if file.is_file())
        return weights + files + self._held_bytes

    _held_bytes: int = 0

    @property
    def _at_once(self) -> int:
        return max(1, min(_MOST_ROWS, int(_GRADIENT_BYTES / 4 / self._parameters)))

    @property
    def _parameters(self) -> int:
        return sum(value.numel() for value in self._model.parameters())

    def _untrained(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            return self._recipe.build().cpu().eval()

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (self._recipe.loss or default_loss(targets))(outputs, targets)

    def _check_memory(self, size: float, what: str) -> None:
        check_memory(int(size), f"{type(self).__name__} {what}", cure="Give a smaller model, or another method.")

    def _score(self, question: Question, progress: bool | None) -> Scores:
        """Return the scores of a question; the packages score all rows."""
        if question.kind == "self" and not self.has_self_influence:
            raise BaselineError(f"{self.title} of {self.distribution} has no self-influence. Ask for pairs.")
        with self._working():
            if question.queries is None:
                values = self._own()[question.rows.numpy()][None]
            else:
                values = self._pairs(question.queries)[question.rows.numpy()]
        if question.kind == "mean":
            values = values.mean(1, keepdims=True)
        version = importlib.metadata.version(self.distribution)
        provenance = {"method": self.title, "package": f"{self.distribution} {version}"}
        return question.scores(values, path=f"{self.title} ({self.distribution} {version})", provenance=provenance)

    @abstractmethod
    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        """Return scores [all rows, queries]."""

    def _own(self) -> np.ndarray:
        raise NotImplementedError

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Hide the bars of packages that have no option not to show them, and warnings about their own use of torch.

        What they draw comes from the seed; the caller's random state is left alone.
        """
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            torch.manual_seed(self._seed)
            yield


def training_weights(recipe: TrainingRecipe, *, seed: int = 0, checkpoints: int = 1) -> tuple[State, ...]:
    """Train; return the weights at so many equal parts of the training, the last at its end.

    Args:
        recipe: how to train.
        seed: of the training.
        checkpoints: how many.
    """
    total = len(recipe.batches(seed))
    steps = {(place + 1) * total // checkpoints for place in range(checkpoints - 1)}
    states: list[State] = []

    def note(step: Step) -> None:
        if step.number in steps:
            states.append(_copied(step.model))

    final = recipe.fit(seed=seed, on_step=note)
    return (*states, _copied(final))


def _copied(model: nn.Module) -> State:
    # On the CPU, where all of these packages run here.
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def tensors_of(queries: TrainingRecipe) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of queries."""
    assert isinstance(queries.inputs, Tensor)
    return queries.inputs, queries.targets


class _Captum(PackageMethod):
    package = distribution = "captum"

    def _options(self) -> dict[str, Any]:
        # TracIn weighs checkpoints by the learning rate: that with which the optimizer starts.
        rate = float(self._recipe.optimizer(self._model.parameters()).param_groups[0]["lr"])

        def load(model: nn.Module, state: State) -> float:
            model.load_state_dict(state)
            model.eval()
            return rate

        return {"checkpoints_load_func": load, "loss_fn": _SummedLoss(self), "batch_size": self._at_once}

    def _answers(self, queries: TrainingRecipe | None) -> np.ndarray:
        method = self._method()
        answer = method.self_influence() if queries is None else method.influence(tensors_of(queries)).T
        return np.asarray(answer.detach().float())

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        return self._answers(queries)

    def _own(self) -> np.ndarray:
        return self._answers(None)

    @abstractmethod
    def _method(self) -> Any:
        """Return captum's object, with the training rows and checkpoints."""


class _SummedLoss(nn.Module):
    """The sum of the rows' losses, and the attribute by which captum knows that it is one."""

    reduction = "sum"

    def __init__(self, method: PackageMethod) -> None:
        super().__init__()
        self._losses = method._losses

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self._losses(outputs, targets).sum()


class CaptumTracIn(_Captum):
    """TracInCP of captum over the given checkpoints of one training.

    Args:
        recipe: rows, loss and model.
        weights: checkpoints of one training.
        seed: not used.
        fast: its TracInCPFast: gradients of the last layer only.
    """

    title = "TracInCP"

    def __init__(self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0, fast: bool = False) -> None:
        super().__init__(recipe, weights, seed=seed)
        self._fast = fast

    def _method(self) -> Any:
        from captum.influence import TracInCP, TracInCPFast

        checkpoints: Any = list(self.weights)  # captum's types say paths, its text says anything that `load` can load
        if self._fast:
            return TracInCPFast(self._model, _leaves(self._model)[-1][1], self._rows, checkpoints, **self._options())
        return TracInCP(self._model, self._rows, checkpoints, **self._options(), sample_wise_grads_per_batch=True)


class CaptumArnoldi(_Captum):
    """Influence functions of captum by Arnoldi iteration, with its defaults; the last of the weights count."""

    title = "Arnoldi influence functions"

    def _method(self) -> Any:
        from captum.influence._core.arnoldi_influence_function import ArnoldiInfluenceFunction  # not offered above

        final: Any = self.weights[-1]  # its types say a path
        how = self._options()
        return ArnoldiInfluenceFunction(
            self._model, self._rows, final, **how, sample_wise_grads_per_batch=True, seed=self._seed
        )


class CaptumSimilarity(PackageMethod):
    """Cosine similarity of the last hidden layer by captum, which knows no labels and has no self-influence."""

    package = distribution = "captum"
    title = "cosine similarity"
    has_self_influence = False

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        from captum.influence import SimilarityInfluence

        names = [name for name, _ in _leaves(self._model)]
        if len(names) < 2:
            raise BaselineError("similarity needs a hidden layer, and this model has none. Use another method.")
        count, (hidden, last) = len(self._rows), names[-2:]
        # In one batch: it asks a last, smaller one for as many rows as the others have. Of two layers: with one it
        # fails (captum 0.9.0).
        method = SimilarityInfluence(self._model, [hidden, last], self._rows, self.scratch, batch_size=count)
        order, values = method.influence(tensors_of(queries)[0], top_k=count)[hidden]
        return torch.zeros_like(values).scatter(1, order, values).T.detach().numpy()


def _leaves(model: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, part) for name, part in model.named_modules() if not list(part.children())]


_FEWEST_DIMENSIONS, _MOST_DIMENSIONS, _ROWS_PER_DIMENSION = 101, 512, 10


class Trak(PackageMethod):
    """TRAK over the given models; the features of the rows are computed at once, which takes most of its time.

    Self-influence is the score of each row as a target. Its projected gradient is that of the row itself, which is
    there already.

    Args:
        recipe: rows and model; TRAK explains the margin of the label, whatever the loss.
        weights: ends of several trainings.
        seed: of the projection.
        projection: dimensions of the projected gradients, 101 or more; None: a tenth of the rows, at most 512. It
            should be well below the number of rows, for the matrix that TRAK inverts is a sum over them.
    """

    package, distribution, title = "trak", "traker", "TRAK"

    def __init__(
        self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0, projection: int | None = None
    ) -> None:
        super().__init__(recipe, weights, seed=seed)
        if projection is None:
            projection = min(_MOST_DIMENSIONS, max(_FEWEST_DIMENSIONS, len(recipe) // _ROWS_PER_DIMENSION))
        if projection < _FEWEST_DIMENSIONS:
            raise BaselineError(f"`projection` must be an integer >= {_FEWEST_DIMENSIONS}, got {projection}.")
        self._projection, self._asked = projection, 0
        self._check_memory(4 * projection * self._parameters, "draws a projection that needs")
        with self._working():
            traker = self._opened()
            for number, state in enumerate(self.weights):
                traker.load_checkpoint(state, model_id=number)
                for batch in self._batches(recipe):
                    traker.featurize(batch=batch, num_samples=len(batch[1]))
            traker.finalize_features(model_ids=self._numbers)

    @property
    def _numbers(self) -> list[int]:
        return list(range(len(self.weights)))

    def _opened(self) -> Any:
        """Return a TRAKer on the features that are there; one that has made features has no projection any more."""
        from trak import TRAKer
        from trak.projectors import BasicProjector, ProjectionType

        kind: Any = ProjectionType.normal  # its values are words, its types say otherwise
        # In one block the projection is drawn once; in several, as it does by itself, anew for every batch.
        projector = BasicProjector(
            grad_dim=self._parameters,
            proj_dim=self._projection,
            seed=self._seed,
            proj_type=kind,
            device=torch.device("cpu"),
            block_size=self._projection,
        )
        return TRAKer(
            model=self._model,
            task="image_classification",
            train_set_size=len(self._recipe),
            save_dir=self.scratch,
            device="cpu",
            projector=projector,
            use_half_precision=False,
            logging_level=logging.ERROR,
        )

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        self._asked += 1
        name, traker = f"question {self._asked}", self._opened()
        for number, state in enumerate(self.weights):
            traker.start_scoring_checkpoint(name, state, number, len(queries))
            for batch in self._batches(queries):
                traker.score(batch=batch, num_samples=len(batch[1]))
        return np.array(traker.finalize_scores(name, model_ids=self._numbers))

    def _own(self) -> np.ndarray:
        """Return the score of each row as a target, as `finalize_scores` would say it."""
        products, slopes, saver = [], [], self._opened().saver
        for number in self._numbers:
            saver.load_current_store(number)
            store = saver.current_store
            products.append((store["features"] * store["grads"]).sum(1))
            slopes.append(store["out_to_loss"][:, 0])
        return np.mean(products, 0) * np.mean(slopes, 0)

    def _batches(self, rows: TrainingRecipe) -> list[tuple[Tensor, Tensor]]:
        inputs, targets = tensors_of(rows)
        return list(zip(inputs.split(self._at_once), targets.split(self._at_once), strict=True))


_FACTORS_HELD = 4  # a factor, its eigenvectors, and room for the decomposition


class KronfluenceEkfac(PackageMethod):
    """EK-FAC influence functions on one model; the factors are fitted at once.

    Args:
        recipe: rows, loss and model; layers other than Linear and Conv2d are left out.
        weights: of the trained model.
        seed: of the labels that it samples for its factors.
        damping: its `damping_factor`; None: a tenth of the mean eigenvalue.
    """

    package = distribution = "kronfluence"
    title = "EK-FAC"

    def __init__(
        self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0, damping: float | None = None
    ) -> None:
        super().__init__(recipe, weights, seed=seed)
        from kronfluence.analyzer import Analyzer, prepare_model
        from kronfluence.arguments import FactorArguments

        self._damping, self._asked = damping, 0
        sides = [side for value in self._model.parameters() if value.dim() > 1 for side in value.flatten(1).shape]
        self._check_memory(4 * _FACTORS_HELD * sum(side**2 for side in sides), "fits factors that need")
        task = kronfluence_task(losses=self._losses)
        with self._working():
            self._analyzer: Any = Analyzer(
                "task",
                model=prepare_model(self._model, task),
                task=task,
                cpu=True,
                output_dir=self.scratch,
                disable_tqdm=True,
                log_level=logging.ERROR,
            )
            self._analyzer.fit_all_factors(
                "factors",
                dataset=self._rows,
                per_device_batch_size=self._at_once,
                factor_args=FactorArguments("ekfac"),
            )

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        asked = TensorDataset(*tensors_of(queries))
        name = self._next_name()
        self._analyzer.compute_pairwise_scores(
            name, query_dataset=asked, per_device_query_batch_size=min(len(asked), self._at_once), **self._how()
        )
        return np.asarray(self._analyzer.load_pairwise_scores(name)["all_modules"].T.float())

    def _own(self) -> np.ndarray:
        name = self._next_name()
        self._analyzer.compute_self_scores(name, **self._how())
        return np.asarray(self._analyzer.load_self_scores(name)["all_modules"].float())

    def _next_name(self) -> str:
        self._asked += 1
        return f"question {self._asked}"

    def _how(self) -> dict[str, Any]:
        from kronfluence.arguments import ScoreArguments

        return {
            "factors_name": "factors",
            "train_dataset": self._rows,
            "per_device_train_batch_size": self._at_once,
            "score_args": ScoreArguments(damping_factor=self._damping),
        }


def kronfluence_task(
    tracked: list[str] | None = None, *, losses: Callable[[Tensor, Tensor], Tensor] | None = None
) -> Any:
    """Return a classification as kronfluence takes it.

    Args:
        tracked: modules whose parameters count; None: all.
        losses: of outputs and labels; None: cross-entropy.
    """
    from kronfluence.task import Task

    def summed_loss(outputs: Tensor, labels: Tensor) -> Tensor:
        return (losses or _cross_entropy)(outputs, labels).sum()

    class Classification(Task):
        def compute_train_loss(self, batch: tuple[Tensor, ...], model: nn.Module, sample: bool = False) -> Tensor:
            *inputs, labels = batch
            outputs = model(*inputs)
            if sample:
                labels = torch.multinomial(outputs.detach().softmax(1), 1).flatten()
            return summed_loss(outputs, labels)

        def compute_measurement(self, batch: tuple[Tensor, ...], model: nn.Module) -> Tensor:
            return self.compute_train_loss(batch, model)

        def get_influence_tracked_modules(self) -> list[str] | None:
            return tracked

    return Classification()


def _cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, labels, reduction="none")


@dataclass(frozen=True)
class DattriSolver:
    """How dattri solves for the gradient of a query.

    Attributes:
        title: for tables.
        attributor: name of its class.
        options: those of its examples.
    """

    title: str
    attributor: str
    options: Mapping[str, Any]


DATTRI_SOLVERS = {
    "cg": DattriSolver("conjugate gradients", "IFAttributorCG", {"max_iter": 10, "regularization": 5e-3}),
    "lissa": DattriSolver("LiSSA", "IFAttributorLiSSA", {"recursion_depth": 100}),
    "datainf": DattriSolver("DataInf", "IFAttributorDataInf", {"regularization": 1e-2}),
}
LOGRA: dict[str, Any] = {"damping": 5e-3, "proj_dim": 1024}

_QUERIES_AT_ONCE = 25
_ROWS_AT_ONCE = 250


class DattriInfluenceFunctions(PackageMethod):
    """Influence functions of dattri; there is no self-influence, which would solve for every row.

    These are the steps of its `attribute`, which solves for all queries anew at every batch of rows. Of DataInf, the
    products with all gradients of rows are matrix products: seconds instead of minutes.

    Args:
        recipe: rows, loss and model.
        weights: of the trained model.
        seed: of the rows that LiSSA draws.
        solver: "cg", "lissa" or "datainf", or one with options of its own.

    Attributes:
        attributor: the object of dattri.
    """

    package = distribution = "dattri"
    title = "influence functions"
    has_self_influence = False

    def __init__(
        self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0, solver: str | DattriSolver = "cg"
    ) -> None:
        super().__init__(recipe, weights, seed=seed)
        from dattri.algorithm import influence_function

        if isinstance(solver, str) and solver not in DATTRI_SOLVERS:
            raise BaselineError(f"`solver` must be one of {', '.join(DATTRI_SOLVERS)}, got {solver!r}.")
        how = DATTRI_SOLVERS[solver] if isinstance(solver, str) else solver
        self._by_products = how.attributor == "IFAttributorDataInf"
        if self._by_products:
            self._held_bytes = 4 * len(recipe) * self._parameters
            self._check_memory(self._held_bytes, "keeps gradients of all rows, which need")
        model, losses = self._untrained(), self._losses

        def loss(weights: State, rows: tuple[Tensor, Tensor]) -> Tensor:
            outputs = torch.func.functional_call(model, weights, rows[0])
            return losses(outputs, rows[1].long()).mean()  # LiSSA hands labels on as floats

        with self._working(), torch.no_grad():
            task = _task(loss, model, self.weights[-1])
            self.attributor = getattr(influence_function, how.attributor)(task=task, **how.options)
            self.attributor.cache(DataLoader(self._rows, batch_size=len(recipe)))  # its Hessian is that of a batch

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        method = self.attributor
        solve = partial(_datainf_solved, method) if self._by_products else partial(method.transform_test_rep, 0)
        with torch.no_grad():
            solved = torch.cat(
                [solve(method.generate_test_rep(0, batch)) for batch in _batches(queries, _QUERIES_AT_ONCE)]
            )
            rows = min(_ROWS_AT_ONCE, self._at_once)
            pairs = [method.generate_train_rep(0, batch) @ solved.T for batch in _batches(self._recipe, rows)]
        return torch.cat(pairs).numpy()


def _datainf_solved(method: Any, gradients: Tensor) -> Tensor:
    """Return what the `transform_test_rep` of its DataInf says of gradients [queries, weights], as matrix products."""
    reg, solved = method.regularization, []
    parts = (method._get_layer_wise_reps(0, of) for of in (gradients, method._cached_train_reps[0]))
    for queries, rows in zip(*parts, strict=True):
        shares = queries @ rows.T / (reg + rows.square().sum(1))
        solved.append((queries - shares @ rows / len(rows)) / reg)
    return torch.cat(solved, 1)


class DattriLoGra(PackageMethod):
    """LoGra of dattri (Choe et al. 2024): projected gradients of the linear layers, empirical Fisher."""

    package = distribution = "dattri"
    title = "LoGra"

    def __init__(self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0) -> None:
        super().__init__(recipe, weights, seed=seed)
        from dattri.algorithm import LoGraAttributor

        losses = self._losses
        model = nn.Sequential(_AsBatch(tuple(tensors_of(recipe)[0].shape[1:])), self._model).eval()

        def loss(model: nn.Module, batch: tuple[Tensor, Tensor], device: str) -> Tensor:
            return losses(model(batch[0]), batch[1]).mean()

        self._loader = DataLoader(self._rows, batch_size=_ROWS_AT_ONCE)
        with self._working(), torch.compiler.set_stance("force_eager"):
            task = _task(loss, model, model.state_dict())
            self._attributor = LoGraAttributor(task=task, cache_dir=self.scratch, **LOGRA)
            self._attributor.cache(self._loader)

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        asked = DataLoader(TensorDataset(*tensors_of(queries)), batch_size=_ROWS_AT_ONCE)
        with torch.compiler.set_stance("force_eager"):
            return self._attributor.attribute(self._loader, asked).detach().numpy()

    def _own(self) -> np.ndarray:
        with torch.compiler.set_stance("force_eager"):
            return np.asarray(self._attributor.compute_self_attribution().detach())


class _AsBatch(nn.Module):
    """Makes a single row a batch: LoGra looks at the shapes of layers with the first row alone."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, *self.shape)


def _task(loss: Callable[..., Tensor], model: nn.Module, state: State) -> Any:
    from dattri.task import AttributionTask

    return AttributionTask(loss_func=loss, model=model, checkpoints=[state])


def _batches(rows: TrainingRecipe, at_once: int) -> Iterator[tuple[Tensor, Tensor]]:
    inputs, targets = tensors_of(rows)
    for x, y in zip(inputs.split(at_once), targets.split(at_once), strict=True):
        yield x[None], y[None]
