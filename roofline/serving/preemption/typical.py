"""Copies to and from the host where nothing was measured: typical values with their sources. `hardware/_host_copies.yaml`."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field, model_validator

from roofline import files
from roofline.errors import SpecError
from roofline.specs.base import Spec
from roofline.specs.fit import Value
from roofline.specs.library import Input, folders, shipped
from roofline.specs.source import Source
from roofline.specs.yaml_file import read_yaml

Share = Annotated[float, Field(gt=0, le=1)]


class Figure(Spec):
    """A typical value, between what others measured, and who they are."""

    value: Value
    low: Value
    high: Value
    sources: tuple[str, ...] = Field(min_length=1, description="keys of `sources`")
    note: str = ""

    @model_validator(mode="after")
    def _ordered(self) -> Figure:
        if not 0 < self.low <= self.value <= self.high:
            msg = f"the value {self.value:g} must lie between low {self.low:g} and high {self.high:g}, all above 0"
            raise ValueError(msg)
        return self


class Pinned(Spec):
    """Copies from and to page-locked memory."""

    call: Figure = Field(description="seconds of a call besides its bytes")
    link: Figure = Field(description="share of the link's rate that large copies reach")


class Pageable(Spec):
    """Copies from and to any other memory."""

    call: Figure = Field(description="seconds of a call besides its bytes")
    rate: Figure = Field(description="bytes/s through the host's buffer, where the link could do more")


class HostCopies(Spec):
    """The file."""

    schema_version: Literal[1]
    kind: Literal["host_copies"]
    read: date
    pinned: Pinned
    pageable: Pageable
    sources: dict[str, Source]

    @model_validator(mode="after")
    def _sources_exist(self) -> HostCopies:
        for figure in (self.pinned.call, self.pinned.link, self.pageable.call, self.pageable.rate):
            for name in figure.sources:
                if name not in self.sources:
                    msg = f"source {name!r} is not a key of sources ({', '.join(self.sources)})"
                    raise ValueError(msg)
        return self


def load() -> tuple[HostCopies, Input]:
    """The file of the first folder of hardware that has one.

    Raises:
        SpecError: there is none, or it is not what it should be.
    """
    for folder in folders("hardware"):
        if files.is_file(path := folder / "_host_copies.yaml"):
            file = read_yaml(path)
            ours = path.is_relative_to(shipped("hardware"))
            used = Input("host copies", "typical host copies", "shipped" if ours else str(path), file.sha256)
            return file.validate(HostCopies), used
    msg = "the installation is broken: no _host_copies.yaml in the folders of hardware"
    raise SpecError(msg)
