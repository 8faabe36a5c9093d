"""The `turnover` command: `main`, and all commands in one app, each imported when it runs."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from turnover.errors import MissingExtraError

if TYPE_CHECKING:
    import typer

# Where each command is, and the first line of its help, so that a list of all loads none.
COMMANDS = {
    "demo": ("run", "Find label errors among handwritten digits, in two minutes and without a download."),
    "run": ("run", "Train once on your data, score every training row and write a report."),
    "explain": ("explain", "Show the training examples behind a prediction."),
    "cleanse": ("cleanse", "Drop the harmful training rows, and write the data without them."),
    "memorized": ("explain", "Show what was memorized, and which labels are likely errors."),
    "annotate": (
        "annotate",
        "Send likely label errors to Label Studio or Argilla, and take corrected labels back.",
    ),
    "audit": ("evaluate", "Measure what leaks from a training row into its flipped subnetwork."),
    "report": ("evaluate", "Write the report of a run: one HTML file that needs no network."),
    "serve": ("evaluate", "Serve a live page that explains predictions."),
    "evaluate": ("evaluate", "Compare the scores of a run, and of other methods on its rows, with retraining."),
}
_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def main() -> None:
    """Run the command line; without its packages, say how to install them."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(str(MissingExtraError(f"the command line needs more packages ({error}): pip install 'turnover[cli]'")))
    try:
        make_app()()
    except KeyboardInterrupt:  # while modules were still being loaded
        sys.exit(130)


def function_of(name: str) -> Callable[..., None]:
    """Return the function of a command."""
    return getattr(import_module(f".{COMMANDS[name][0]}", __package__), name)


def make_app() -> "typer.Typer":
    """Return the app with all its commands."""
    import typer
    from typer.core import TyperCommand, TyperGroup

    from turnover._version import __version__

    class Commands(TyperGroup):
        """All commands by their names and summaries; the code of one is imported when it is called."""

        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = {
                name: TyperCommand(name, help=summary, rich_markup_mode="markdown")
                for name, (_, summary) in COMMANDS.items()
            }

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, _, rest = super().resolve_command(ctx, args)
            return name, _loaded(str(name)), rest

    app = typer.Typer(
        name="turnover",
        cls=Commands,
        help="Which training examples made a prediction, which harm it and which were memorized.",
        epilog="Begin with: turnover demo. Then: turnover run reviews.csv --text text --label label",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings=_HELP_OPTIONS,
    )

    def show_version(asked: bool) -> None:
        if asked:
            print(f"turnover {__version__}")
            raise typer.Exit

    @app.callback()
    def options(
        version: Annotated[
            bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
        ] = False,
    ) -> None:
        """Which training examples made a prediction, which harm it and which were memorized."""

    return app


def _loaded(name: str) -> Any:
    """Return a command with its options, imported now."""
    import typer

    from .command import command

    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown", context_settings=_HELP_OPTIONS)
    alone.command(name)(command(function_of(name)))
    return typer.main.get_command(alone)
