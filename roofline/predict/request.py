"""From what a user asks to a resolved request: specs loaded, defaults filled in, every choice on record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.blocks.precision import resolve_precision
from roofline.dtypes import Precision
from roofline.errors import InputError
from roofline.graph import check_parallel, communicating
from roofline.numeric import Expr
from roofline.predict import flags, record, steps
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.efficiency.fits import HOST, Fits
from roofline.predict.flags import Options
from roofline.predict.memory import MemoryModel
from roofline.predict.steps import Workload
from roofline.specs.assumption import Assumption
from roofline.specs.deployment import Deployment
from roofline.specs.engine import Engine
from roofline.specs.engine_steps import EngineSteps
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, load_engine, load_engine_steps, load_hardware
from roofline.specs.workload import Step, decode


@dataclass(frozen=True, slots=True)
class Request:
    """A question with nothing left open. `inputs` are the files that it stands on, `assumptions` the choices made."""

    model: Model
    hardware: Hardware
    engine: Engine
    deployment: Deployment
    precision: Precision
    workload: Workload
    memory: MemoryModel
    estimator: Estimator
    steps: EngineSteps | None
    """What the engine adds to the kernels of a step; None where it was not measured."""
    ignore_capacity: bool
    inputs: tuple[Input, ...]
    assumptions: tuple[Assumption, ...]
    query: dict[str, Any] | None = None
    """`model`, `hardware` and `options` as they were given; None where loaded specs were."""

    def engine_seconds(self, sequences: Expr) -> Expr:
        """What the engine adds to the kernels of a step of so many sequences of one replica."""
        return 0.0 if self.steps is None else self.steps.seconds(sequences, self.deployment.tensor_parallel_size)

    @property
    def engine_band(self) -> tuple[float, float]:
        """Measured over estimated, where whole steps were measured: at most 1, and at least 1."""
        if self.steps is None:
            return 1.0, 1.0
        low, high = self.steps.band
        return min(low, 1.0), max(high, 1.0)

    def memory_steps(self) -> list[tuple[str, Step]]:
        """The steps that have to fit, by name: those that are asked about, and the last one of a request with an output."""
        workload = self.workload
        steps: list[tuple[str, Step]] = list(workload.steps)
        if workload.output_len is not None and workload.output_len > 1:
            steps.append(("last decode", decode(workload.batch, workload.input_len + workload.output_len - 2)))
        return steps

    def all_fit(self, batch: int | None = None) -> bool:
        """Whether every step fits, with another batch in the place of theirs if one is given."""
        steps = [step for _, step in self.memory_steps()]
        return all(self.memory.fits(step if batch is None else with_batch(step, batch)) for step in steps)


def with_batch(step: Step, batch: int) -> Step:
    """A step with another number of sequences in each of its segments."""
    return tuple(replace(segment, count=batch) for segment in step)


def _query(model: object, hardware: object, options: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of `analyze` as plain data."""
    if isinstance(model, Model) or isinstance(hardware, Hardware):
        return None
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return {"model": str(model), "hardware": str(hardware), "options": given}


def prepare(model: str | PathLike[str] | Model, hardware: str | PathLike[str] | Hardware, **options: Any) -> Request:
    """Resolve a request. Options are those of `roofline analyze` with underscores; `tp`, `pp`, `dp`, `ep` are short.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    query = _query(model, hardware, options)
    given = Options.of(options)
    notes: list[Assumption] = []
    inputs: list[Input] = []
    assume = given.take("assume")
    if not isinstance(model, Model):
        model, read = load_model(model, assume)
        inputs.append(read)
    elif assume is not None:
        raise InputError("assume says how to read a config.json; the model is none")
    if not isinstance(hardware, Hardware):
        hardware, files = load_hardware(hardware)
        inputs += files
    hardware = flags.override(hardware, given, notes)
    ignore_capacity = bool(given.take("ignore_capacity"))
    engine_name = given.take("engine")
    if not isinstance(engine_name, str | None):
        msg = f"--engine must be NAME or NAME@VERSION, not {engine_name!r}"
        raise InputError(msg)
    engine, read = load_engine(engine_name or "vllm")
    inputs.append(read)
    deployment = flags.deployment(given, engine, engine_name is not None, notes)
    workload = steps.workload(given, model, deployment, notes)
    given.done()

    check_parallel(model, deployment)
    for group in communicating(deployment):
        hardware.connection(group)  # raises where nothing joins so many
    precision, chosen = resolve_precision(model, deployment, hardware.accelerator.peak_flops, engine)
    memory = MemoryModel(
        model=model,
        deployment=deployment,
        precision=precision,
        capacity=hardware.memory_bytes,
        utilization=deployment.gpu_memory_utilization or engine.gpu_memory_utilization,
        block_size=deployment.block_size or engine.block_size,
        max_num_batched_tokens=deployment.max_num_batched_tokens or engine.max_num_batched_tokens,
        rules=engine.kv_cache,
    )
    fits = Fits(hardware, deployment.backend)
    fits.check()
    # measured with graphs of kernels on accelerators: it says nothing of a processor
    on_host = hardware.accelerator.vendor == HOST
    measured = None if on_host else load_engine_steps([*([deployment.backend] if deployment.backend else []), engine.name])
    if measured is not None:
        inputs.append(measured[1])
    noted = [
        *record.shadowing(inputs),
        *record.reading(model),
        *chosen,
        *notes,
        *record.state(model, deployment, precision, engine),
        *record.conventions(model, deployment, options),
        *record.allocated(memory, engine),
        *record.gaps(hardware),
        *record.parallelism(model, deployment, hardware),
    ]
    return Request(
        model=model,
        hardware=hardware,
        engine=engine,
        deployment=deployment,
        precision=precision,
        workload=workload,
        memory=memory,
        estimator=Estimator(fits, hidden=measured[0].hidden if measured else 0.0),
        steps=measured[0] if measured else None,
        ignore_capacity=ignore_capacity,
        inputs=tuple(inputs),
        assumptions=tuple(noted),
        query=query,
    )
