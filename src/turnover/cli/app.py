"""The `turnover` command."""

import sys


def main() -> None:
    """Run the command line; without its packages, say how to install them."""
    try:
        import rich  # noqa: F401
        import typer
    except ImportError:
        sys.exit("the command line needs a few more packages: pip install 'turnover[cli]'")
    import turnover

    from .demo import demo

    app = typer.Typer(
        name="turnover",
        help="Which training examples made a prediction, which harm it and which were memorised.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            print(f"turnover {turnover.__version__}")
            raise typer.Exit

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Show the version."
        ),
    ) -> None:
        """Hold the options of all commands."""

    app.command()(demo)
    try:
        app()
    except turnover.TurnOverError as error:
        print(f"turnover: {error}", file=sys.stderr)
        sys.exit(2)
