"""Which fit an estimate uses: the accelerator's own for the backend, another backend's, another accelerator's.

Nothing is mixed up silently: a fit carries where it comes from (`Origin`), and what was not measured on this accelerator
and backend widens the band.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from roofline.errors import InputError, SpecError, UnknownNameError
from roofline.predict.efficiency.form import Chip, Form, Values, chip
from roofline.predict.efficiency.forms import FORMS, forms_by_op
from roofline.predict.efficiency.kernels import exact, nearest
from roofline.specs.fit import Family, Fit, Spread
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, fit_files, load_fit, load_hardware, load_spread
from roofline.specs.yaml_file import read_text

Origin = Literal["fitted", "other formats", "other backend", "transferred", "assumed"]
HOST = "host"
"""The vendor in the hardware.yaml that `bench` writes for a processor."""
ASSUMED = ("copy_h2d", "copy_d2h")
"""Ops of which typical values are assumed where nothing was measured."""
WIDE = (0.5, 2.0)
DEFAULT = "vllm"
"""Whose kernels are estimated unless a backend is given."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A family of a fit, its form, and the values for the chip in question."""

    key: str
    family: Family
    form: Form
    values: Values
    fit: Fit | None
    """The file that it is in; None of typical values, which are in none."""
    origin: Origin
    same_architecture: bool = True
    same_vendor: bool = True

    @property
    def source(self) -> str:
        """Accelerator, backend and family, as a person names them."""
        return f"{self.fit.accelerator} {self.fit.backend} {self.key}" if self.fit else f"typical {self.key}"


@dataclass
class Fits:
    """The fits for one accelerator, the wanted backend first. Files are read when they are needed."""

    hardware: Hardware
    backend: str | None = None
    inputs: dict[str, Input] = field(default_factory=dict)
    _by_key: dict[str, Fitted | None] = field(default_factory=dict)
    _read: dict[Path, Fit] = field(default_factory=dict)
    _chips: dict[str, Chip] = field(default_factory=dict)
    _texts: dict[Path, str] = field(default_factory=dict)

    @cached_property
    def chip(self) -> Chip:
        """The accelerator to estimate for."""
        return chip(self.hardware)

    @cached_property
    def spread(self) -> Spread:
        """Allowances for what was not measured."""
        return load_spread()

    def find(self, key: str) -> Fitted | None:
        """The fit for a family.

        Args:
            key: of the family, such as "gemm/fp8".

        Returns:
            The best that is known: of this accelerator and backend, else of what is nearest; its `origin` says which. None
            where there is none for the op, or for one that stands for it.
        """
        if key not in self._by_key:
            self._by_key[key] = next(self._candidates(key), None) or self._typical(key)
        return self._by_key[key]

    def _typical(self, key: str) -> Fitted | None:
        """Of copies to and from the host no records are published: the values that their form starts from, and a wide
        band."""
        if key not in ASSUMED:
            return None
        form = forms_by_op()[key][0]
        family = Family(form=form.name, parameters=form.starts(), rows=0, shapes=0, bands={"all": WIDE}, range={})
        return Fitted(key, family, form, family.parameters, None, "assumed")

    def _candidates(self, key: str) -> Iterator[Fitted]:
        """Best first: what was measured on this accelerator, or on one of its architecture, in these formats; in others;
        elsewhere. Of each the wanted backend first."""
        own, such = self.hardware.accelerator.name, exact(key)
        others = [wanted for wanted in nearest(key) if wanted not in such]
        for formats in (such, others):
            yield from self._in((own,), key, formats)
            yield from self._in(self._others(formats, same_architecture=True), key, formats)
        yield from self._in(self._others([*such, *others], same_architecture=False), key, [*such, *others])

    def _in(self, accelerators: Iterable[str], key: str, formats: list[str]) -> Iterator[Fitted]:
        """What the files of these accelerators hold for a family, or for one that may stand for it."""
        for accelerator in accelerators:
            for path in self._files(accelerator):
                for wanted in formats:
                    if self._names(path, wanted) and wanted in (fit := self._load(path)).families:
                        yield self._fitted(fit, key, wanted)

    def _names(self, path: Path, wanted: str) -> bool:
        """Whether a file's text names a family at all: one that does not is not parsed."""
        if path not in self._texts:
            self._texts[path] = read_text(path)
        return wanted in self._texts[path]

    def _fitted(self, fit: Fit, key: str, wanted: str) -> Fitted:
        """A family of a fit for the chip in question."""
        family = fit.families[wanted]
        form, values = FORMS[family.form], family.parameters
        first = self._wanted is None or slug(fit.backend) == slug(self._wanted)
        origin: Origin = "other formats" if wanted not in exact(key) else "fitted" if first else "other backend"
        if fit.accelerator == self.hardware.accelerator.name:
            return Fitted(wanted, family, form, values, fit, origin)
        there = self._chip(fit.accelerator)
        if form.transfer is not None:
            values = form.transfer(values, there, self.chip)
        if form.elsewhere is not None:
            form = FORMS[form.elsewhere(self.chip)]
        return Fitted(
            wanted,
            family,
            form,
            values,
            fit,
            "transferred",
            there.architecture == self.chip.architecture,
            self._same_vendor(there),
        )

    def _same_vendor(self, other: Chip) -> bool:
        return other.hardware.accelerator.vendor == self.hardware.accelerator.vendor

    @property
    def _wanted(self) -> str | None:
        """The backend by its name; of a file, the one that it is of."""
        if self.backend is None:
            return None
        return self._load(Path(self.backend)).backend if _is_file(self.backend) else self.backend

    def check(self) -> None:
        """Refuse a backend of which no fit is known, for any accelerator, and a file that is of another one."""
        if self.backend is None:
            return
        if _is_file(self.backend):
            if (other := self._load(Path(self.backend)).accelerator) != self.hardware.accelerator.name:
                own = self.hardware.accelerator.name
                msg = (
                    f"{self.backend} is a fit of {other}, and the hardware is {own}: leave out --backend to have it transferred"
                )
                raise InputError(msg)
            return
        known = {path.stem for paths in self._listed.values() for path in paths}
        if slug(self.backend) not in known:
            hint = "The path of a file that `roofline calibrate` wrote works too."
            raise UnknownNameError("backend", self.backend, sorted(known), hint, list_all=True)

    def _files(self, accelerator: str) -> list[Path]:
        """Files for an accelerator, the wanted backend first, then the default."""
        listed = self._listed.get(accelerator, [])
        wanted = slug(self._wanted or DEFAULT)
        order = sorted(listed, key=lambda path: (path.stem != wanted, path.stem != DEFAULT, path.stem))
        if self.backend is not None and _is_file(self.backend) and self._load(Path(self.backend)).accelerator == accelerator:
            return [Path(self.backend), *order]
        return order

    def _others(self, formats: list[str], *, same_architecture: bool) -> list[str]:
        """Other accelerators with a fit of one of these families, of the same architecture or of another, the nearest in peak
        and bandwidth first. Kernels of an accelerator say nothing about a processor's."""
        if self.hardware.accelerator.vendor == HOST:
            return []
        own = self.hardware.accelerator.name
        listed = (
            name for name in self._listed
            if name != own and any(self._names(path, wanted) for path in self._listed[name] for wanted in formats)
        )  # fmt: skip
        fitting = (name for name in listed if (self._chip(name).architecture == self.chip.architecture) is same_architecture)
        return sorted(fitting, key=self._distance)

    @cached_property
    def _listed(self) -> dict[str, list[Path]]:
        """The files of every accelerator."""
        return fit_files()

    def _distance(self, accelerator: str) -> tuple[bool, bool, float]:
        """The distance of another accelerator: vendor, architecture, logarithms of the ratios of peak and bandwidth."""
        here, there = self.chip, self._chip(accelerator)
        other = there.hardware.accelerator
        log_ratio = abs(math.log(here.bandwidth / there.bandwidth)) + abs(math.log(here.sixteen_bit / there.sixteen_bit))
        return (other.vendor != self.hardware.accelerator.vendor, there.architecture != here.architecture, log_ratio)

    def _chip(self, accelerator: str) -> Chip:
        if accelerator not in self._chips:
            self._chips[accelerator] = chip(load_hardware(accelerator)[0])
        return self._chips[accelerator]

    def _load(self, path: Path) -> Fit:
        if path not in self._read:
            fit, read = load_fit(path)
            for key, family in fit.families.items():
                _check(path, key, family)
            self._read[path] = fit
            self.inputs[read.name] = read
        return self._read[path]


def _check(path: Path, key: str, family: Family) -> None:
    """A family's form has to exist, and to have these parameters."""
    try:
        form = FORMS[family.form]
    except UnknownNameError as error:
        raise SpecError(f"families.{key}.form: {error}", path=path) from None
    wanted, given = {parameter.name for parameter in form.parameters}, set(family.parameters)
    if unknown := sorted(given - wanted):
        raise SpecError(f"families.{key}: {UnknownNameError(f'parameter of {form.name}', unknown[0], wanted)}", path=path)
    if missing := sorted(wanted - given):
        raise SpecError(f"families.{key}.parameters: {missing[0]!r} of form {form.name} is missing", path=path)


def _is_file(backend: str) -> bool:
    return backend.endswith((".yaml", ".yml"))


def slug(backend: str) -> str:
    """A backend's name as the name of a file.

    >>> slug("sarathi/vllm+torch")
    'sarathi-vllm-torch'
    """
    return "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in backend.lower()).strip("-")
