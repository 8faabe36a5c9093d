"""The `turnover` command."""

import sys
from typing import TYPE_CHECKING, Annotated

from turnover.errors import MissingExtraError

if TYPE_CHECKING:
    import typer


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


def make_app() -> "typer.Typer":
    """Return the app with all its commands."""
    import typer

    from turnover._version import __version__

    from .annotate import annotate
    from .audit import audit
    from .cleanse import cleanse
    from .demo import demo
    from .evaluate import evaluate
    from .explain import explain
    from .memorized import memorized
    from .outcomes import guarded
    from .report import report
    from .run import run
    from .serve import serve

    app = typer.Typer(
        name="turnover",
        help="Which training examples made a prediction, which harm it and which were memorized.",
        epilog="Begin with: turnover demo. Then: turnover run reviews.csv --text text --label label",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
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

    for command in (demo, run, explain, cleanse, memorized, annotate, audit, report, serve, evaluate):
        app.command(command.__name__)(guarded(command))
    return app
