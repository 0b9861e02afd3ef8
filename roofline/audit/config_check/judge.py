"""`plan --check`: whether a deployment as it is written meets the objectives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.audit.config_check.deployment import CheckedDeployment, checked_deployment
from roofline.audit.config_check.findings import (
    Finding,
    LoadFindings,
    ReplicaCapacity,
    length_findings,
    limit_findings,
    replica_capacity,
    start_findings,
    worst_verdict,
)
from roofline.audit.config_check.forms import form_title, read_launch
from roofline.audit.config_check.reasons import CheckContext, finding_sentences
from roofline.blocks.model import Model
from roofline.documents import dump_json
from roofline.errors import InputError
from roofline.predict.options import ALIASES
from roofline.serving.planning.candidates import CandidateDraft, PoolSize, candidate
from roofline.serving.planning.load import Query
from roofline.serving.planning.performance import closed_loop_performance
from roofline.serving.planning.plan import TRAFFIC, assemble, resolve
from roofline.serving.planning.result import Candidate, Plan
from roofline.serving.traffic.classes import Traffic
from roofline.specs.hardware import Hardware

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Source:
    """The file that was checked.

    Attributes:
        path: of the file.
        form: title of its format.
        engine: name of the engine.
        line: of what starts the engine.
        lines: of the options that the file sets, by name.
    """

    path: str
    form: str
    engine: str
    line: int
    lines: dict[str, int]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of `roofline plan --check`.

    Attributes:
        passed: whether no objective or limit is missed; one at risk passes, with a reason.
        reasons: sentences with the flag to change, missed objectives first.
        findings: every objective and limit.
        replicas: number of replicas.
        replicas_needed: minimum number that meets every objective; None where no number does, or the engine does not start.
        unmodelled: flags that change performance and are not modelled in the times, in words.
        not_understood: flags that are not known.
        source: the file.
        plan: the deployment in the layout of a plan.
    """

    passed: bool
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    replicas: int
    replicas_needed: int | None
    unmodelled: tuple[str, ...]
    not_understood: tuple[str, ...]
    source: Source
    plan: Plan

    @property
    def candidate(self) -> Candidate | None:
        """The deployment as a candidate of `plan`; None where the engine does not start."""
        return self.plan.best

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the layout of `roofline plan --check --json`: a plan with one candidate, and `check`."""
        return {
            **self.plan.to_dict(),
            "check": {
                "passed": self.passed,
                "reasons": list(self.reasons),
                "findings": [finding.to_dict() for finding in self.findings],
                "replicas": self.replicas,
                "replicas_needed": self.replicas_needed,
                "unmodelled": list(self.unmodelled),
                "not_understood": list(self.not_understood),
                "file": self.source.path,
                "form": self.source.form,
                "engine": self.source.engine,
                "line": self.source.line,
                "lines": self.source.lines,
            },
        }

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def flat(self) -> list[dict[str, Any]]:
        """One flat row per finding; times in seconds."""
        return [finding.to_dict() for finding in self.findings]

    def to_frame(self) -> pd.DataFrame:
        """A tidy table, one row per finding; times in seconds."""
        import pandas as pd

        return pd.DataFrame(self.flat())


_SEARCH_OPTIONS = ("rank", "mode", "top", "tokens", "deadline", "allow_disaggregated", "simulate", "simulate_top")


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
    **given_options: Any,
) -> Check:
    """Check whether the deployment of a file meets the objectives of a traffic, and explain what is missed.

    Args:
        path: a file of `kind: deployment`, a Kubernetes manifest, a Docker Compose file, or the YAML file of flags of
            `vllm serve --config`, which starts one vLLM or SGLang.
        model: instead of the file's: a shipped id, the path of a file, or a loaded model.
        hardware: instead of the file's, if it has one.
        replicas: likewise.
        traffic: as for `plan`; without it, `given_options` describe one class of requests.
        price: path of a file of prices.
        inventory: available accelerators by id; a limit that the deployment may miss, as are the next two.
        max_gpus: maximum number of accelerators.
        max_cost: maximum cost per hour, in the currency of the prices.
        spare: number of replicas that serve no load.
        pue: power usage effectiveness, energy of the building over that of its machines, for the bound on energy.
        skip_bad_rows: leave broken rows of a trace out; otherwise the first one is an error.
        **given_options: those of one class and of the deployment, as for `plan`; they take precedence over the file.

    Returns:
        The verdict; `.to_dict()` has the layout of `roofline plan --check --json`.

    Raises:
        SpecError: what is wrong with a file, with line and key.
        InputError: a wrong option, several kinds of hardware, an option of the search (`rank`, `mode`, `top`), as many spare
            replicas as there are, or a limit on cost without a price.
    """
    for name in _SEARCH_OPTIONS:
        if given_options.pop(name, None) not in (None, False):
            raise InputError(f"--{name.replace('_', '-')} is for what plan finds: leave it out with --check")
    options = {ALIASES.get(name, name): value for name, value in given_options.items() if value not in (None, False)}
    balanced = bool(options.pop("attention_dp_balance", False))
    load = {name: options.pop(name) for name in TRAFFIC if name in options}
    assume = {name: options.pop(name) for name in ("assume",) if name in options}

    def query(of_model: Any, of_hardware: Any) -> Query:
        # NB: how long a sequence may be is judged here, and not refused
        others = {name: value for name, value in options.items() if name != "max_model_len"}
        given = {**load, **assume, **others}
        resolved = resolve(
            of_model, of_hardware, traffic=traffic, price=price, inventory=inventory, max_gpus=max_gpus,
            max_cost=max_cost, spare=spare, rank=None, mode="colocated", pue=pue, top=None, skip_bad_rows=skip_bad_rows,
            options=given,
        )  # fmt: skip
        return replace(resolved, attention_dp_balance=balanced)

    launch = read_launch(Path(path).expanduser())
    deployment = checked_deployment(launch, query, options, model, hardware, replicas)
    if len(deployment.query.hardware) > 1:
        raise InputError("--hardware names several: a deployment is checked on one")
    return judge(deployment)


def judge(deployment: CheckedDeployment) -> Check:
    """Judge a deployment with a value for every option.

    Raises:
        InputError: as many spare replicas as there are, or a limit on cost without a price.
        SpecError: an option that is wrong for this model or hardware, with its place in the file.
    """
    query = deployment.query
    serving = deployment.replicas - query.spare
    if serving < 1:
        raise InputError(f"--spare {query.spare} leaves none of the {deployment.replicas} replicas")
    capacity = replica_capacity(deployment)
    under_load = None if capacity.replica is None else LoadFindings(capacity.replica, query.load)
    findings = [*start_findings(deployment, capacity), *length_findings(deployment, capacity)]
    needed = None
    if under_load is not None:
        findings += [_with_replicas(under_load, one, serving) for one in under_load.findings(serving)]
        needed = serving if _passes(under_load.findings(serving)) else under_load.min_replicas(_passes, serving)
        needed = None if needed is None else needed + query.spare
    findings += limit_findings(deployment, capacity)
    passed = _passes(tuple(findings))
    context = CheckContext(deployment, capacity, under_load, serving)
    candidates = () if (candidate_of := _candidate(deployment, capacity, serving)) is None else (candidate_of,)
    plan = assemble(
        query, candidates, capacity.request, pareto=tuple(range(len(candidates))), infeasible=None,
        considered={"deployments": 1, "fit": int(capacity.replica is not None), "meet": int(passed),
                    "within_limits": int(passed)},
        refused=(),
    )  # fmt: skip
    return Check(
        passed=passed,
        reasons=tuple(finding_sentences(context, tuple(findings))),
        findings=tuple(findings),
        replicas=deployment.replicas,
        replicas_needed=needed,
        unmodelled=deployment.notes,
        not_understood=deployment.unknown,
        source=Source(
            path=str(deployment.launch.document.file.path),
            form=form_title(deployment.launch.document),
            engine=deployment.launch.server.name,
            line=deployment.launch.place.line,
            lines={name: value.line for name, value in deployment.places.items()},
        ),
        plan=replace(plan, assumptions=(*deployment.assumptions, *plan.assumptions)),
    )


def _passes(findings: tuple[Finding, ...]) -> bool:
    return worst_verdict(findings) != "missed"


def _with_replicas(under_load: LoadFindings, finding: Finding, serving: int) -> Finding:
    """A finding that is missed, with the fewest replicas that meet it."""
    if finding.verdict != "missed":
        return finding

    def good(findings: tuple[Finding, ...]) -> bool:
        return all(one.verdict != "missed" for one in findings if (one.objective, one.of) == (finding.objective, finding.of))

    return replace(finding, replicas=under_load.min_replicas(good, serving))


def _candidate(deployment: CheckedDeployment, capacity: ReplicaCapacity, serving: int) -> Candidate | None:
    """The deployment as a candidate of `plan`."""
    query, option, replica = deployment.query, capacity.option, capacity.replica
    if option is None or replica is None:
        return None
    performance = None
    if query.load.concurrency is not None:
        performance = closed_loop_performance(replica, query.load, query.load.concurrency / serving)
    return candidate(query, CandidateDraft((PoolSize(option, "both", replica, serving),), query.spare, performance))
