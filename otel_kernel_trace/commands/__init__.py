"""The command ``otel-kernel-trace`` and its subcommands, a module for each family of them.

Exit status: 0 done; 1 something could not be read or written, or was not found, and the
message says what; 2 wrong use; 3 ``check`` found that a rule does not hold; 130 interrupted.
"""

from __future__ import annotations

from importlib import import_module

import click

from otel_kernel_trace.commands.terminal import safe
from otel_kernel_trace.version import __version__

_SUBCOMMANDS = {
    "blame": "reading:blame_command",
    "check": "checking:check_command",
    "compare": "reading:compare_command",
    "diff": "reading:diff_command",
    "export": "transferring:export_command",
    "fingerprint": "checking:fingerprint_command",
    "import": "transferring:import_command",
    "ls": "reading:ls_command",
    "merge": "transferring:merge_command",
    "recover": "reading:recover_command",
    "report": "page:report_command",
    "serve": "page:serve_command",
    "show": "reading:show_command",
    "stages": "stages:stages_command",
}


class _Subcommands(click.Group):
    """Imports a subcommand when it is asked for: most need little of what others do."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SUBCOMMANDS:
            return None
        module, _, name = _SUBCOMMANDS[cmd_name].partition(":")
        found = getattr(import_module(f"{__name__}.{module}"), name)
        assert isinstance(found, click.Command)
        return found

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            # It may name what a trace holds; a line of its own could be a command to a CI's runner.
            if type(error) is not click.ClickException:
                raise
            raise click.ClickException(safe(error.message).replace("\n", "\\n")) from error
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(130)  # as shells have it


@click.group(cls=_Subcommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="otel-kernel-trace")
def command() -> None:
    """See how AI kernels came about: read, compare, show and send trees of records.

    \b
    otel-kernel-trace ls ./kernel_trace_logs
    otel-kernel-trace show ./kernel_trace_logs swish
    otel-kernel-trace diff ./kernel_trace_logs swish
    otel-kernel-trace check ./kernel_trace_logs --rules rules.toml
    otel-kernel-trace report ./kernel_trace_logs -o report.html
    otel-kernel-trace export ./kernel_trace_logs --jsonl > trace.jsonl
    """
