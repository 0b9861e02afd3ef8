"""`--kv-offload`: the KV cache tiers of a simulated server, from a size or a YAML file.

A size is one tier in the host's memory for each replica, with the copies of swapping (`serving.preemption.copies`). In a file
rates are those of a whole replica, end to end: bytes of all its devices over the time until they are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from roofline import files, formatting
from roofline.errors import InputError, UnitError
from roofline.predict.options import read_quantity
from roofline.predict.request import ResolvedRequest
from roofline.serving.preemption.copies import HostCopyOptions
from roofline.serving.preemption.costs import Swap, replica_bytes
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.kv_tiers import TierConfig, Transfer
from roofline.serving.simulation.scheduler import SchedulingPolicy
from roofline.specs.base import Spec
from roofline.specs.library import Input
from roofline.specs.source import Assumption
from roofline.specs.yaml_file import SectionErrors, read_yaml
from roofline.text import clean
from roofline.units import parse_quantity

MAX_BLOCKS = 1 << 40
"""Blocks of a tier that never fills up."""


def _quantity(unit: str, *, zero: bool = False) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError(f"must be a text with a unit, not {value!r}")  # noqa: TRY004 - pydantic reports it
        try:
            number = float(parse_quantity(value, unit))
        except UnitError as error:
            raise ValueError(str(error)) from None
        if number < 0 or (number == 0 and not zero):
            raise ValueError(f"must be {'at least' if zero else 'more than'} 0, not {value}")
        return number

    return parse


_Bytes = Annotated[float, BeforeValidator(_quantity("byte"), json_schema_input_type=str)]
_Rate = Annotated[float, BeforeValidator(_quantity("byte/s"), json_schema_input_type=str)]
_Seconds = Annotated[float, BeforeValidator(_quantity("s", zero=True), json_schema_input_type=str)]


class TierEntry(Spec):
    """A tier of the file."""

    name: str = Field(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")
    capacity: _Bytes = Field(description='bytes that it holds, such as "200 GB": of each replica, or of all that share it')
    read: _Rate | None = Field(
        default=None, description='bytes/s from it to the devices of a replica, such as "25 GB/s"; default: the host link'
    )
    write: _Rate | None = Field(default=None, description="bytes/s to it; default: as `read`")
    latency: _Seconds = Field(default=0.0, description='time that each transfer takes besides its bytes, such as "20 us"')
    shared: bool = Field(default=False, description="one tier, with one link, for all replicas")


class OffloadFile(Spec):
    """The keys of a file of KV cache tiers."""

    schema_version: Literal[1] = 1
    kind: Literal["kv_offload"] = "kv_offload"
    load: Literal["cheaper", "always"] = Field(
        default="cheaper", description="load blocks where that is faster than computing them, or always"
    )
    tiers: tuple[TierEntry, ...] = Field(min_length=1, max_length=8, description="in the order in which they are looked at")


@dataclass(frozen=True, slots=True)
class OffloadConfig:
    """KV cache tiers of a server.

    Args:
        tiers: in the order in which they are looked at.
        always: load whatever a tier has, however long it takes.
        block_size: tokens per block.
        inputs: files that were read.
    """

    tiers: tuple[TierConfig, ...]
    always: bool
    block_size: int
    inputs: tuple[Input, ...] = ()

    @property
    def shares(self) -> bool:
        """Whether replicas share a tier."""
        return any(tier.shared for tier in self.tiers)


def resolve_offload(
    value: str | float | PathLike[str], request: ResolvedRequest, config: EngineConfig, policy: SchedulingPolicy,
    host_options: HostCopyOptions, notes: list[Assumption],
) -> OffloadConfig:  # fmt: skip
    """Return the KV cache tiers of a server.

    Args:
        value: bytes (a text with a unit, or a number) of host memory per replica, or a YAML file of tiers.
        request: the deployment of each replica.
        config: limits of each replica.
        policy: its scheduler.
        host_options: of copies to the host.
        notes: gets what is assumed.

    Raises:
        InputError: a wrong value; a deployment or scheduler for which tiers are not simulated; options without an effect.
        SpecError: the file is invalid.
    """
    _check(request, config, policy)
    if host_options.host_memory is not None:
        raise InputError("--host-memory is of caches that are swapped: --kv-offload has the size of its tiers itself")
    content, inputs, errors = _read(value)
    swap = None
    if any(entry.read is None for entry in content.tiers):
        swap = Swap.of(
            request, host_link=host_options.host_link, pinned=host_options.pinned, coalesced=host_options.coalesced,
            gpus_per_link=host_options.gpus_per_link,
        )  # fmt: skip
        notes += swap.copies.notes
        inputs = (*inputs, *swap.copies.inputs)
    elif host_options.given:
        raise InputError(f"{host_options.given[0]} is of the host link, and every tier has a `read` of its own")
    block_bytes = replica_bytes(request, config.block_size)
    tiers: list[TierConfig] = []
    for index, entry in enumerate(content.tiers):
        num_blocks = min(int(entry.capacity // block_bytes), MAX_BLOCKS)
        if num_blocks < 1:
            size = f"a block of {config.block_size} tokens has {formatting.binary(block_bytes)}"
            if errors is None:
                raise InputError(f"--kv-offload {value} holds no block: {size}")
            raise errors(("tiers", index, "capacity"), f"holds no block: {size}")
        read, write = _transfers(entry, swap, block_bytes, config.block_size)
        tiers.append(
            TierConfig(
                name=entry.name, num_blocks=num_blocks, block_bytes=block_bytes, read=read, write=write,
                latency=entry.latency, shared=entry.shared,
            )
        )  # fmt: skip
        notes.append(_note(tiers[-1], config.block_size, given=entry.read is not None, coalesced=host_options.coalesced))
    always = content.load == "always"
    why = (
        "whatever a tier has, however long it takes" if always
        else "where the prompt is computed earlier with it than without, by the step times of its tokens alone"
    )  # fmt: skip
    notes.append(Assumption("kv_offload.load", content.load, "given" if always else "default", why))
    return OffloadConfig(tuple(tiers), always, config.block_size, inputs)


def _read(value: str | float | PathLike[str]) -> tuple[OffloadFile, tuple[Input, ...], SectionErrors | None]:
    """The tiers of a size or a file, the files read, and what makes errors about keys of the file; None of a size."""
    path = _path(value)
    if path is None:
        capacity = read_quantity("kv_offload", value, "byte")
        host = TierEntry.model_construct(name="host", capacity=capacity)
        return OffloadFile.model_construct(load="cheaper", tiers=(host,)), (), None
    file = read_yaml(path)
    content, errors = file.validate(OffloadFile), SectionErrors(file)
    linked = [index for index, entry in enumerate(content.tiers) if entry.read is None]
    for index, entry in enumerate(content.tiers):
        if entry.name in ("device", "computed"):
            raise errors(("tiers", index, "name"), f"{entry.name!r} is taken: results call the device's own part so")
        if entry.name in [one.name for one in content.tiers[:index]]:
            raise errors(("tiers", index, "name"), f"{entry.name!r} is there twice")
        if entry.read is None and index != linked[0]:
            raise errors(("tiers", index), "has no `read`, and another tier has the host link already")
        if entry.read is None and (entry.shared or entry.write is not None):
            key = "shared" if entry.shared else "write"
            raise errors(("tiers", index, key), "a tier on the host link (without `read`) is of one replica, at its rates")
    return content, (Input("kv offload", clean(path.name), str(path), file.sha256),), errors


def _path(value: str | float | PathLike[str]) -> Path | None:
    """The file that a value names; None: it is a size."""
    if isinstance(value, int | float):
        return None
    path = Path(value).expanduser()
    if path.suffix.lower() in (".yaml", ".yml") or files.is_file(path):
        return path
    try:
        parse_quantity(str(value), "byte")
    except UnitError as error:
        raise InputError(f'--kv-offload: {error}; give a size such as "200 GB", or a YAML file of tiers') from None
    return None


def _check(request: ResolvedRequest, config: EngineConfig, policy: SchedulingPolicy) -> None:
    """Refuse what tiers are not simulated for."""
    kinds = [kind for stage in request.memory.stages for kind in stage.layout.kinds]
    plain = all(kind.window is kind.chunk is None for kind in kinds)
    states = any(stage.layout.state_bytes for stage in request.memory.stages)
    if config.num_fixed_blocks or states or not plain or not kinds:
        raise InputError(
            f"--kv-offload: {request.model.name} has layers with a window or a state, whose blocks are found by rules of their "
            "own: their prefixes are not cached in simulation, on the device or beside it"
        )
    if not config.enable_prefix_caching:
        raise InputError("--kv-offload: blocks are found by their prefix: leave out --no-enable-prefix-caching")
    if request.deployment.data_parallel_size > 1:
        raise InputError("--kv-offload is not simulated for data-parallel ranks that step together")
    if not policy.loads_prefixes:
        raise InputError(
            f"--kv-offload: the scheduler {policy.name} does not go on with a prompt that was admitted before; "
            "give --scheduler vllm-v1, sglang or sarathi"
        )


def _transfers(entry: TierEntry, swap: Swap | None, block_bytes: float, block_size: int) -> tuple[Transfer, Transfer]:
    """Seconds of transfers from a tier and to it."""
    if entry.read is not None:
        return Transfer(block_bytes / entry.read), Transfer(block_bytes / (entry.write or entry.read))
    assert swap is not None  # noqa: S101 - made where an entry has no rate
    (out, back), (out_two, back_two) = swap.seconds(block_size), swap.seconds(2 * block_size)
    # affine in the blocks: all layers cache all tokens
    return tuple(Transfer(float(two - one), max(float(2 * one - two), 0.0)) for one, two in ((back, back_two), (out, out_two)))  # type: ignore[return-value]


def _note(tier: TierConfig, block_size: int, *, given: bool, coalesced: bool) -> Assumption:
    rate = formatting.quantity(tier.block_bytes / tier.read.block, "B/s", 3)
    tokens = "any number of" if tier.num_blocks == MAX_BLOCKS else f"{tier.num_blocks * block_size:,}"
    of = "all replicas" if tier.shared else "each replica"
    why = f"{tokens} tokens of {of}, read at {rate}"
    if not given:
        why += " by " + ("one call per load, blocks gathered" if coalesced else "a call per block, layer and tensor (K, V)")
    if tier.latency:
        why += f", {formatting.seconds(tier.latency)} later"
    return Assumption(f"kv_offload.{tier.name}", tier.num_blocks * tier.block_bytes, "given", why)
