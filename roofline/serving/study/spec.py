"""A study: policies, deployments, rates and seeds, as its YAML file has them, and the simulations that they make."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from roofline import files
from roofline.documents import envelope
from roofline.errors import InputError, RooflineError, SpecError, UnknownNameError
from roofline.predict.options import ALIASES, DEPLOYMENT, of_groups
from roofline.serving.options import SIMULATE
from roofline.serving.simulation.simulate import simulate
from roofline.serving.simulation.workload import flagged
from roofline.serving.traffic.scalars import parse_rate, parse_seconds, parse_share
from roofline.specs.base import Scalar, Spec
from roofline.specs.prices import load_prices
from roofline.specs.yaml_file import SectionErrors, YamlFile, read_yaml
from roofline.text import clean
from roofline.units import parse_count

MAX_RUNS = 100_000
_OF_STUDY = {
    "rate": "a study has `rates`", "seed": "a study has `seeds`", "replications": "a study has `seeds`",
    "find_rate": "a study has `rates`",
    "percentile": "it is of --find-rate", "perfetto": "it is of one run", "stepwise": "it is for checking one run",
}  # fmt: skip
"""Options of `simulate` that no run of a study has of its own, and why."""
_PATHS = ("trace", "workload", "model", "hardware", "price", "profile", "autoscale", "failures", "kv_offload", "pools")

Options = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """One simulation of a study: what it combines, and its number."""

    index: int
    deployment: str
    policy: str
    rate: float | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class Study:
    """Simulations of every policy on every deployment at every rate with every seed. Plain data: it can be sent elsewhere.

    Args:
        options: options of `simulate` that all have, with `model` and `hardware`.
        policies: options of each policy, by its name.
        deployments: options of each deployment, by its name; a policy's option goes before a deployment's.
        rates: requests/s; None: as the workload has it.
        seeds: of the arrivals and lengths; of a trace with arrivals, its blocks are drawn with each seed but 0.
        price: file of prices; None: those that are shipped.
        inputs: files that are read, by role: name and SHA-256.
    """

    options: Options
    policies: dict[str, Options]
    deployments: dict[str, Options]
    rates: tuple[float | None, ...] = (None,)
    seeds: tuple[int, ...] = (0,)
    price: str | None = None
    inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def num_runs(self) -> int:
        """Number of simulations."""
        return len(self.deployments) * len(self.policies) * len(self.rates) * len(self.seeds)

    def points(self) -> Iterator[Point]:
        """Yield the simulations in the order of the table: deployments, policies, rates, seeds."""
        grid = product(self.deployments, self.policies, self.rates, self.seeds)
        for index, (deployment, policy, rate, seed) in enumerate(grid):
            yield Point(index, deployment, policy, rate, seed)

    def options_of(self, deployment: str, policy: str) -> Options:
        """Return the options of `simulate` for a policy on a deployment, with `model` and `hardware`."""
        return {**self.options, **self.deployments[deployment], **self.policies[policy]}

    def describe(self) -> dict[str, Any]:
        """Return the study as plain data, by which the same study is recognised."""
        content = {
            "options": self.options, "policies": self.policies, "deployments": self.deployments, "rates": list(self.rates),
            "seeds": list(self.seeds), "price": self.price,
        }  # fmt: skip
        plain: dict[str, Any] = json.loads(json.dumps({**envelope(self.inputs), **content}, default=str))
        return plain

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the description, in hexadecimal."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()


class StudyFile(Spec):
    """The keys of a study's file."""

    schema_version: Literal[1] = 1
    kind: Literal["study"] = "study"
    options: dict[str, Any] = Field(default_factory=dict, description="options of `simulate` that all runs have")
    policies: Annotated[Any, WithJsonSchema({"type": ["object", "array"]})] = Field(
        description="options of each policy by its name; or a list of schedulers"
    )
    deployments: dict[str, Any] = Field(default_factory=dict, description="options of each deployment by its name")
    rates: Annotated[Any, WithJsonSchema({"type": ["array", "number", "string"]})] = Field(
        default=None, description="requests/s of each load, such as [2, 4, 300/min]; default: the workload's own"
    )
    seeds: Annotated[Any, WithJsonSchema({"type": ["array", "integer"]})] = Field(
        default=1, description="how many seeds, from 0 on, or a list of them"
    )
    price: Scalar | None = Field(default=None, description="file of prices; default: those that are shipped")


def is_study_file(path: Path) -> bool:
    """Return whether a file is YAML of the kind "study".

    Raises:
        SpecError: the file is no YAML that can be read.
    """
    return path.suffix in (".yaml", ".yml") and files.is_file(path) and read_yaml(path).data.get("kind") == "study"


def load_study(path: str | Path) -> Study:
    """Return the study of a YAML file; paths in it are relative to its folder. Every policy is tried on every deployment with
    one request.

    Raises:
        SpecError: a wrong key or value, with its place.
    """
    location = Path(path).expanduser()
    file = read_yaml(location)
    if file.data.get("kind") != "study":
        raise SpecError("has no `kind: study`", path=location, line=1, column=1)
    return _study(file.validate(StudyFile), SectionErrors(file), file, location.parent)


def read_study(content: Mapping[str, Any]) -> Study:
    """Return the study of a mapping with the keys of a study's file; paths are relative to the working directory.

    Raises:
        InputError: a wrong key or value.
    """
    known = list(StudyFile.model_fields)
    if unknown := [key for key in content if key not in known]:
        raise UnknownNameError("key", unknown[0], known, list_all=True)
    if "policies" not in content:
        raise InputError("key 'policies' is missing")
    file = YamlFile(Path("study"), dict(content), {}, "")
    return _study(StudyFile.model_validate(dict(content)), lambda key, problem: InputError(f"{_dotted(key)}: {problem}"), file)


Fail = Callable[[str | tuple[str | int, ...], str], InputError]
"""Makes an error about a key, or a path of keys, and what is wrong with it."""


def _dotted(key: str | tuple[str | int, ...]) -> str:
    return key if isinstance(key, str) else ".".join(map(str, key))


def _study(content: StudyFile, fail: Fail, file: YamlFile, folder: Path | None = None) -> Study:
    options = _options(content.options, ("options",), fail, folder)
    policies = _named(_schedulers(content.policies), "policies", fail, folder)
    deployments = _named(content.deployments, "deployments", fail, folder) or {"": {}}
    for index, deployment in enumerate(deployments.values()):
        for name in ("model", "hardware"):
            if name not in options and name not in deployment and not all(name in policy for policy in policies.values()):
                place = ("deployments", list(deployments)[index]) if content.deployments else ("options",)
                raise fail(place, f"{name} is missing: name it in `options`, or in each deployment")
    rates = _rates(content.rates, fail)
    seeds = _seeds(content.seeds, fail)
    price = None if content.price is None else _located(content.price, folder)
    try:
        prices = load_prices(price)
    except InputError as error:
        raise fail("price", str(error)) from None
    study = Study(
        options=options, policies=policies, deployments=deployments, rates=rates, seeds=seeds, price=price,
        inputs={"prices": {"name": prices.inputs[0].name, "sha256": prices.inputs[0].sha256}},
    )  # fmt: skip
    if study.num_runs > MAX_RUNS:
        raise fail("rates", f"{study.num_runs:,} runs are more than the {MAX_RUNS:,} of a study")
    for one, other in product(deployments, policies):
        _try(study, one, other, fail, file)
    return study


def _schedulers(policies: Any) -> Any:
    """A list of schedulers as policies that are called like them."""
    if isinstance(policies, list) and all(isinstance(one, str) for one in policies):
        return {name: {"scheduler": name} for name in policies}
    return policies


def _named(content: Any, key: str, fail: Fail, folder: Path | None) -> dict[str, Options]:
    if not isinstance(content, dict) or (key == "policies" and not content):
        raise fail(key, f"must be names, each with options of `simulate`, not {str(content)[:60]!r}")
    return {clean(str(name)): _options(options, (key, name), fail, folder) for name, options in content.items()}


def names() -> dict[str, str]:
    """Return the name of each option that a study may have, by its spellings."""
    deployment = {option.name: option.name for option in of_groups(DEPLOYMENT, ("shared_prefix", "ignore_capacity"))}
    listed = {**{name: name for name in ("model", "hardware", *SIMULATE) if name not in _OF_STUDY}, **deployment}
    aliases = {alias: name for alias, name in ALIASES.items() if name in listed}
    aliases |= {alias: option.name for option in SIMULATE.values() for alias in option.aliases if option.name in listed}
    return {**listed, **aliases}


def _options(content: Any, place: tuple[str | int, ...], fail: Fail, folder: Path | None) -> Options:
    """Options by their names in the Python API, checked."""
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise fail(place, f"must be options of `simulate`, not {str(content)[:60]!r}")
    known = names()
    options: Options = {}
    for key, value in content.items():
        name = str(key).lstrip("-").replace("-", "_")
        if name in _OF_STUDY:
            raise fail((*place, key), f"{_OF_STUDY[name]}, and no option of this name")
        if name not in known:
            raise fail((*place, key), str(UnknownNameError("option of `simulate`", key, known)))
        name = known[name]
        if name in options:
            raise fail((*place, key), f"{name} is given twice")
        if isinstance(value, dict | list):
            raise fail((*place, key), f"must be one value, not {str(value)[:60]!r}")
        options[name] = _located(value, folder) if name in _PATHS else _lengths_located(value, folder)
    return options


def _located(value: Any, folder: Path | None) -> Any:
    """A path of the file, relative to its folder; other values as they are."""
    if folder is None or not isinstance(value, str):
        return value
    path = folder / Path(value).expanduser()
    return str(path) if files.exists(path) else value


def _lengths_located(value: Any, folder: Path | None) -> Any:
    if folder is None or not isinstance(value, str) or not value.startswith("file:"):
        return value
    return f"file:{folder / Path(value.removeprefix('file:')).expanduser()}"


def _rates(value: Any, fail: Fail) -> tuple[float | None, ...]:
    if value is None:
        return (None,)
    listed = value if isinstance(value, list) else [value]
    rates: list[float] = []
    for index, one in enumerate(listed):
        try:
            rate = parse_rate(one)
        except InputError as error:
            raise fail(("rates", index), str(error)) from None
        if rate in rates:
            raise fail(("rates", index), f"{one} is there twice")
        rates.append(rate)
    if not rates:
        raise fail("rates", "must be at least one rate, such as [2, 4, 8]")
    return tuple(rates)


def _seeds(value: Any, fail: Fail) -> tuple[int, ...]:
    try:
        if isinstance(value, list):
            seeds: Sequence[int] = [parse_count(one, "a seed") for one in value]
        else:
            seeds = range(parse_count(value, "seeds", 1))
    except InputError as error:
        raise fail("seeds", str(error)) from None
    if len(seeds) > MAX_RUNS:
        raise fail("seeds", f"{len(seeds):,} are more than the {MAX_RUNS:,} runs of a study")
    if len(set(seeds)) < max(len(seeds), 1):
        raise fail("seeds", "must be different whole numbers, such as [0, 1, 2]; or how many")
    return tuple(seeds)


def _try(study: Study, deployment: str, policy: str, fail: Fail, file: YamlFile) -> None:
    """Serve one request, so that wrong options are found before any run; note the files that are read."""
    options = study.options_of(deployment, policy)
    given = {**options, "requests": 1, "rate": study.rates[0]}
    given.pop("until", None)
    given.pop("warm_up", None)
    if str(options.get("workload", "")).startswith("closed"):
        given["workload"] = re.sub(r":(prompts|warm-up|warm_up)=[^:]*", "", str(options["workload"]))
    if is_closed_file(given.get("workload")):
        del given["requests"]  # it has a number of its own
    try:
        _check_lengths(options)
        result = simulate(given.pop("model"), given.pop("hardware"), **given)
    except RooflineError as error:
        raise _placed(error, study, deployment, policy, fail, file) from None
    for role, entry in result.inputs.items():
        name = role if study.inputs.get(role, entry)["sha256"] == entry["sha256"] else f"{role} {entry['name']}"
        study.inputs[name] = {"name": entry["name"], "sha256": entry["sha256"]}


def _check_lengths(options: Options) -> None:
    """Read what says how long a run is, which one request leaves out.

    Raises:
        InputError: one of them is wrong; the message names its flag.
    """
    if options.get("requests") is not None:
        parse_count(options["requests"], "--requests", minimum=1)
    for name, parse in (("until", parse_seconds), ("warm_up", parse_share)):
        if options.get(name) is not None:
            flagged(name.replace("_", "-"), parse, options[name])


def is_closed_file(workload: Any) -> bool:
    """Whether a workload is a file whose clients send a number of prompts each."""
    path = Path(str(workload))
    if path.suffix not in (".yaml", ".yml") or not files.is_file(path):
        return False
    return any(isinstance(one, dict) and one.get("prompts") for one in read_yaml(path).data.get("classes") or ())


def _placed(error: RooflineError, study: Study, deployment: str, policy: str, fail: Fail, file: YamlFile) -> Exception:
    """The error at the key that it is about: the option that its message names by its flag or by its value."""
    message = str(error)
    sections: list[tuple[tuple[str, ...], Options]] = [
        (("policies", policy), study.policies[policy]), (("deployments", deployment), study.deployments[deployment]),
        (("options",), study.options),
    ]  # fmt: skip
    flag = re.search(r"--([a-z0-9-]+)", message)
    name = flag[1].replace("-", "_") if flag else ""
    if name == "rate" and study.rates[0] is not None:
        return fail("rates", message)
    value = str(getattr(error, "name", "")) if isinstance(error, UnknownNameError) else ""
    for place, options in sections:
        for key, given in options.items():
            if key == names().get(name) or (value and str(given) == value):
                section: Any = file.data
                for part in place:
                    section = section.get(part, {}) if isinstance(section, dict) else {}
                known = names()
                written = next((one for one in section if known.get(str(one).lstrip("-").replace("-", "_")) == key), key)
                return fail((*place, written), message)
    where = sections[0][0] if study.policies[policy] else sections[1][0]
    return fail(where, message)
