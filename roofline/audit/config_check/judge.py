"""`plan --check`: whether a deployment as it is written meets the objectives."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from roofline.audit.config_check.file import form_of, read_run
from roofline.audit.config_check.findings import at_start, of_lengths, of_limits
from roofline.audit.config_check.reasons import Case, sentences
from roofline.audit.config_check.result import Check, Finding, Source
from roofline.audit.config_check.standing import Standing, standing
from roofline.audit.config_check.subject import Subject, subject
from roofline.audit.config_check.under_load import UnderLoad, worst
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.predict.options import ALIASES
from roofline.serving.planning.candidates import Draft, PoolSize, candidate
from roofline.serving.planning.performance import closed_loop_performance
from roofline.serving.planning.plan import TRAFFIC, assemble, resolve
from roofline.serving.planning.query import Query
from roofline.serving.planning.result import Candidate
from roofline.serving.traffic.classes import Traffic
from roofline.specs.hardware import Hardware

_OF_A_SEARCH = ("rank", "mode", "top")


def check(
    path: str | PathLike[str],
    *,
    model: str | PathLike[str] | Model | None = None,
    hardware: str | Hardware | None = None,
    replicas: int | str | None = None,
    traffic: str | PathLike[str] | Traffic | None = None,
    price: str | PathLike[str] | None = None,
    inventory: str | dict[str, int] | None = None,
    max_gpus: int | str | None = None,
    max_cost: float | str | None = None,
    spare: int | str | None = None,
    pue: float | str | None = None,
    skip_bad_rows: bool = False,
    **options_given: Any,
) -> Check:
    """Whether the deployment of a file meets the objectives of a traffic, and if not, why.

    Args:
        path: a file of `kind: deployment`, a Kubernetes manifest, a Docker Compose file, or the YAML file of flags of
            `vllm serve --config`, which starts one vLLM or SGLang.
        model: in the place of the file's: a shipped id, the path of a file, or a loaded model.
        hardware: in the place of the file's, where it says any.
        replicas: likewise.
        traffic: as for `plan`; else the options of one class.
        price: a file of prices.
        inventory: accelerators that are there; missed where the deployment takes more.
        max_gpus: the most accelerators, likewise.
        max_cost: the most that an hour may cost, likewise.
        spare: so many of the replicas are not counted on.
        pue: energy of the building over that of its machines, for the bound on energy.
        skip_bad_rows: leave broken rows of a trace out.
        **options_given: those of one class, and of the deployment, as for `plan`: they come before what the file says.

    Returns:
        The verdict; `.to_dict()` has the layout of `roofline plan --check --json`.

    Raises:
        roofline.errors.RooflineError: what is wrong with the file, with line and key, or with an option.
    """
    for name in _OF_A_SEARCH:
        if options_given.pop(name, None) is not None:
            raise InputError(f"--{name} is for what plan finds: leave it out with --check")
    asked = {ALIASES.get(name, name): value for name, value in options_given.items() if value not in (None, False)}
    words = {name: asked.pop(name) for name in TRAFFIC if name in asked}
    assume = {name: asked.pop(name) for name in ("assume",) if name in asked}

    def question(found_model: Any, found_hardware: Any) -> Query:
        # NB: how long a sequence may be is judged here, and not refused
        others = {name: value for name, value in asked.items() if name != "max_model_len"}
        given = {**words, **assume, **others}
        return resolve(
            found_model, found_hardware, traffic=traffic, price=price, inventory=inventory, max_gpus=max_gpus,
            max_cost=max_cost, spare=spare, rank=None, mode="colocated", pue=pue, top=None, skip_bad_rows=skip_bad_rows,
            options=given,
        )  # fmt: skip

    run = read_run(Path(path).expanduser())
    found = subject(run, question, asked, model, hardware, replicas)
    if len(found.question.hardware) > 1:
        raise InputError("--hardware names several: a deployment is checked on one")
    return judged(found)


def judged(found: Subject) -> Check:
    """The verdict on a deployment with nothing left open."""
    question = found.question
    serving = found.replicas - question.spare
    if serving < 1:
        raise InputError(f"--spare {question.spare} leaves none of the {found.replicas} replicas")
    stands = standing(found)
    loaded = None if stands.one is None else UnderLoad(stands.one, question.load)
    findings = [*at_start(found, stands), *of_lengths(found, stands)]
    needed = None
    if loaded is not None:
        findings += [_with_replicas(loaded, one, serving) for one in loaded.findings(serving)]
        needed = serving if _passes(loaded.findings(serving)) else loaded.fewest(_passes, serving)
        needed = None if needed is None else needed + question.spare
    findings += of_limits(found, stands)
    case = Case(found, stands, loaded, serving)
    told_of = () if (one := _candidate(found, stands, serving)) is None else (one,)
    plan = assemble(
        question, told_of, stands.request, pareto=tuple(range(len(told_of))), infeasible=None,
        considered={"deployments": 1, "fit": int(stands.one is not None), "meet": int(worst(tuple(findings)) != "missed"),
                    "within_limits": int(worst(tuple(findings)) != "missed")},
        refused=(),
    )  # fmt: skip
    return Check(
        passed=worst(tuple(findings)) != "missed",
        reasons=tuple(sentences(case, tuple(findings))),
        findings=tuple(findings),
        replicas=found.replicas,
        replicas_needed=needed,
        unmodelled=found.notes,
        not_understood=found.unknown,
        source=Source(
            path=str(found.run.document.file.path),
            form=form_of(found.run.document),
            engine=found.run.server.name,
            line=found.run.place.line,
            lines={name: said.line for name, said in found.places.items()},
        ),
        plan=replace(plan, assumptions=(*found.assumptions, *plan.assumptions)),
    )


def _passes(findings: tuple[Finding, ...]) -> bool:
    return worst(findings) != "missed"


def _with_replicas(loaded: UnderLoad, finding: Finding, serving: int) -> Finding:
    """A finding that is missed, with the fewest replicas that would do for it."""
    if finding.verdict != "missed":
        return finding

    def good(findings: tuple[Finding, ...]) -> bool:
        return all(one.verdict != "missed" for one in findings if (one.objective, one.of) == (finding.objective, finding.of))

    return replace(finding, replicas=loaded.fewest(good, serving))


def _candidate(found: Subject, stands: Standing, serving: int) -> Candidate | None:
    """The deployment as `plan` tells of it."""
    question, option, one = found.question, stands.option, stands.one
    if option is None or one is None:
        return None
    seen = None
    if question.load.concurrency is not None:
        seen = closed_loop_performance(one, question.load, question.load.concurrency / serving)
    return candidate(question, Draft((PoolSize(option, "both", one, serving),), question.spare, seen))
