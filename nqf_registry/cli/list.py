"""``nqf list``: every registered layer, from metadata alone."""

from dataclasses import asdict

import click

from nqf_registry.cli.options import json_option, pass_registry, plugin_option, print_json, print_table
from nqf_registry.registry import Registry


@click.command("list")
@json_option
@plugin_option
@pass_registry
def command(registry: Registry, as_json: bool) -> None:
    """List every registered layer: its key, its title and the plugin it comes from."""
    entries = registry.entries()
    if as_json:
        print_json([asdict(entry) for entry in entries])
    elif entries:
        print_table([(entry.key, entry.title, entry.distribution or entry.plugin) for entry in entries])
    for key, plugins in registry.contested.items():
        click.echo(f"contested: {key} is claimed by {' and by '.join(plugins)}; neither has it", err=True)
    quarantined = {failure.plugin for failure in registry.failures if failure.stage != "contested"}
    for plugin in sorted(quarantined):
        click.echo(f"failed: {plugin}; `nqf plugins` says why", err=True)
