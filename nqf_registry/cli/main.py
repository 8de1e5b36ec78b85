"""The root of ``nqf``: finds the verb, imports only its module, and turns errors into messages and exit codes.

Exit codes: 0 done, 1 a check or comparison did not pass, 2 wrong use, 3 the work itself broke, 130 interrupted,
141 nobody reads the output any more, 143 terminated.
"""

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

import nqf_registry
from nqf_registry.cli.options import Settings, plugin_option, settings_of
from nqf_registry.cli.streams import drop_stdout, standard_streams
from nqf_registry.errors import NQFError, UnknownKey, named
from nqf_registry.spelling import did_you_mean
from nqf_registry.verbs import VERBS


class _Told(click.ClickException):
    """An error of the library, as a message on stderr with its exit code."""

    def __init__(self, error: NQFError) -> None:
        super().__init__(str(error).partition("Exception raised from")[0].strip() or type(error).__name__)
        self.exit_code: int = error.exit_code


class Verbs(click.Group):
    """The built-in verbs, each imported when it is called, and the commands that plugins add."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in ``nqf --help``: built-in verbs and, from metadata alone, plugin commands."""
        return sorted({*VERBS, *_plugin_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None where there is none."""
        if cmd_name in VERBS:
            return import_module(f"nqf_registry.cli.{cmd_name}").command
        try:
            return _with_shared_options(settings_of(ctx).registry().command(cmd_name))
        except UnknownKey:
            return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lines of ``nqf --help`` from the table, without importing a verb."""
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(VERBS.items()))
        if added := _plugin_commands(ctx):
            with formatter.section("Verbs of plugins"):
                formatter.write_dl(sorted(added.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments call, with a suggestion where the verb is misspelt."""
        name = args[0]
        if name not in VERBS:
            # The verb itself may come from a file that is named after it.
            settings_of(ctx).plugins += [path for path in _plugin_arguments(args[1:]) if path not in settings_of(ctx).plugins]
            if self.get_command(ctx, name) is None:
                known = self.list_commands(ctx)
                ctx.fail(f"there is no verb {name!r}.{did_you_mean(name, known)} `nqf --help` shows all verbs.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> None:
        """Run the verb. Its return value is dropped: a verb that did not pass calls ``ctx.exit(1)``."""
        try:
            super().invoke(ctx)
        except NQFError as error:
            if settings_of(ctx).debug:
                traceback.print_exc()
            raise _Told(error) from error
        except BrokenPipeError:  # click would end with 1, which is a check that did not pass
            ctx.exit(_reader_gone())


@click.group("nqf", cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(nqf_registry.__version__, prog_name="nqf_registry")
@plugin_option
def command() -> None:
    """Register, prove, catalogue, compose and train layers as quadratic forms in their order parameters."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``nqf`` and return its exit code; no traceback reaches the user unless ``--debug`` is given."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    with standard_streams():
        try:
            os.getcwd()
        except OSError:
            click.echo("Error: the folder that nqf is run in no longer exists; change to another one first.", err=True)
            return 2
        code = _run(arguments, Settings())
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            return _reader_gone()
        except OSError as error:
            return code or _unwritable(error)
        return code


def _run(arguments: Sequence[str], settings: Settings) -> int:
    try:
        return command.main(arguments, prog_name="nqf", standalone_mode=False, obj=settings) or 0
    except BrokenPipeError:
        return _reader_gone()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return 130
    except Exception as error:
        if settings.debug:
            traceback.print_exc()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) and error.filename is None:
            return _unwritable(error)
        hint = "" if settings.debug else "; --debug before the verb shows where"
        click.echo(f"Error: unexpected {named(error)}{hint}", err=True)
        return 3


def _unwritable(error: OSError) -> int:
    drop_stdout()
    click.echo(
        f"Error: the output cannot be written: {error.strerror or error}; free some space, or write elsewhere.", err=True
    )
    return 3


def _reader_gone() -> int:
    """The reader of our output has closed it, as ``head`` does: no more to say, and the exit code that shells give."""
    drop_stdout()
    return 141


def _plugin_commands(ctx: click.Context) -> dict[str, str]:
    try:
        return {entry.key: entry.title for entry in settings_of(ctx).registry().commands()}
    except NQFError:
        return {}  # help is still printed; the verb will say what is wrong


def _plugin_arguments(arguments: Sequence[str]) -> list[str]:
    paths = []
    for place, text in enumerate(arguments):
        if text == "--":
            break
        if text == "--plugin":
            paths += arguments[place + 1 : place + 2]
        elif text.startswith("--plugin="):
            paths.append(text.partition("=")[2])
    return paths


def _with_shared_options(added: click.Command) -> click.Command:
    """A plugin's command, taking ``--plugin`` and ``--debug`` after the verb as the built-in verbs do."""
    taken = {option for parameter in added.params for option in parameter.opts}

    def nothing() -> Any: ...

    for parameter in getattr(plugin_option(nothing), "__click_params__", []):
        if not taken.intersection(parameter.opts):
            added.params.append(parameter)
    return added


if __name__ == "__main__":
    sys.exit(main())
