"""`content why`: the story of one work. Finds the work that is meant and reads what is known of it; `story` tells it.

Exit codes: 0 told; 2 there is no catalog; 3 no work, or more than one, is meant.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from typing import Annotated

import typer

from docstokg_assets.cli.ending import SOMETHING_LEFT, tell
from docstokg_assets.cli.options import ConfigOption, OutOption, PolicyOption, load_for_cli, overrides_from
from docstokg_assets.cli.report_commands import open_catalog

app = typer.Typer()
_LISTED = 20


@app.command("why")
def why(
    work: Annotated[str, typer.Argument(help="OpenAlex id, DOI, arXiv id, PMCID, file name, or a part of the title.")],
    out: OutOption = None,
    config: ConfigOption = None,
    policy: PolicyOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Tell what happened to one work: what was tried, what each answered, why it ended so, what would help."""
    import json

    from docstokg_assets.config.explain import explain_resolvers
    from docstokg_assets.domain.works import Work
    from docstokg_assets.reporting import explain_work
    from docstokg_assets.runs.services import resolvers_of

    loaded = load_for_cli(config, os.environ, overrides_from(out=out, policy=policy))
    work = explain_work.without_file_name(work)
    with open_catalog(loaded.value) as catalog:
        near = catalog.queued_like(explain_work.coarse_pieces(work))
        meant = [queued for queued in near if explain_work.is_meant(work, Work.from_json(queued.record))]
        if len(meant) != 1:
            _tell_choice(work, [(one.work_id, str(one.record.get("title") or "(no title)")) for one in meant])
        queued = meant[0]
        entry = catalog.entry(queued.work_id)
        same = catalog.works_with(entry.sha256) if entry is not None and entry.sha256 else []
        off = [(row.name, str(row.state)) for row in explain_resolvers(loaded) if row.state.value != "enabled"]
        told = explain_work.tell(
            queued,
            entry,
            catalog.attempts_of(queued.work_id, queued.year),
            resolvers_of(loaded.value),
            off,
            catalog.now(),
            also_of=sorted({artifact.work_id for artifact in same} - {queued.work_id}),
        )
    if as_json:
        typer.echo(json.dumps(asdict(told), indent=2, ensure_ascii=False))
    else:
        typer.echo(explain_work.as_text(told, min(shutil.get_terminal_size().columns, 100)), nl=False)


def _tell_choice(wanted: str, works: list[tuple[str, str]]) -> None:
    from docstokg_assets.reporting.rendering import printable

    if not works:
        hint = "Ask with another id or fewer words of the title, give the data root with --out, or `content pull` it first."
        tell(f"{wanted!r} was never seen here. {hint}")
    else:
        tell(f"{len(works)} works are meant by {wanted!r}; ask with one of these ids:")
        for work_id, title in works[:_LISTED]:
            typer.echo(printable(f"{work_id}  {title}"[:110]))
        if len(works) > _LISTED:
            typer.echo(f"… and {len(works) - _LISTED} more", err=True)
    raise typer.Exit(SOMETHING_LEFT)
