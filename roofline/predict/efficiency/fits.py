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
from roofline.predict.efficiency.form import Chip, KernelForm, Values, chip
from roofline.predict.efficiency.forms import FORMS, forms_by_op
from roofline.predict.efficiency.kernels import exact, nearest
from roofline.specs.fit import Family, Fit, Spread
from roofline.specs.hardware import Accelerator, Hardware
from roofline.specs.library import Input, fit_files, load_fit, load_hardware, load_prior, load_spread
from roofline.specs.yaml_file import cached_text

Origin = Literal["fitted", "other formats", "other backend", "transferred", "prior", "assumed"]
HOST = "host"
"""The vendor in the hardware.yaml that `bench` writes for a processor."""
ASSUMED = ("copy_h2d", "copy_d2h")
"""Ops of which typical values are assumed where nothing was measured."""
WIDE = (0.5, 2.0)
LINKED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p")
"""Ops whose kernels are those of a kind of link: between devices, or over the host."""
BEST_MATMUL = 0.83
"""Of the bf16 peak: the best matrix product on the cards whose kernels the prior is of (A100 0.87, H100 0.80, H200 0.82)."""
OVER_HOST = "/pcie"
"""What the prior's key of a linked op has at its end where devices reach each other over the host."""
DEFAULT = "vllm"
"""Whose kernels are estimated unless a backend is given."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A family of a fit, its form, and the values for the chip in question."""

    key: str
    family: Family
    form: KernelForm
    values: Values
    fit: Fit | None
    """The file that it is in; None of typical values, which are in none."""
    origin: Origin
    same_architecture: bool = True

    @property
    def published(self) -> bool:
        """Return whether it is a prior of the vendor's own machines, from published speeds of whole steps."""
        return self.origin == "prior" and "/" in self.key and not self.key.endswith(OVER_HOST)

    @property
    def source(self) -> str:
        """Return accelerator, backend and family as text."""
        if self.published:
            return f"published speeds of steps: {self.key}"
        if self.origin == "prior":
            return f"no measurements: prior {self.key}"
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
        """Return the figures of the accelerator to estimate for."""
        return chip(self.hardware)

    @cached_property
    def spread(self) -> Spread:
        """Return the allowances for what was not measured."""
        return load_spread()

    def find(self, key: str, *, over_host: bool = False) -> Fitted | None:
        """Return the best fit for a family of kernels: of this accelerator and backend, else of the vendor's nearest, else the
        prior; its `origin` says which.

        Args:
            key: of the family, such as "gemm/fp8".
            over_host: of communication, whether devices reach each other over the host's PCIe.

        Returns:
            None where nothing like it was measured anywhere, and for processors.

        Raises:
            SpecError: a fit's file has a wrong key or value.
        """
        known = key + OVER_HOST if over_host else key
        if known not in self._by_key:
            candidates = self._candidates(key, over_host=over_host)
            self._by_key[known] = next(candidates, None) or self._typical(key) or self._prior(known)
        return self._by_key[known]

    def _prior(self, key: str) -> Fitted | None:
        """What published speeds of the vendor's machines say of the op; else what kernels reach on the cards that were
        measured, whosever; of PCIe, else of any link. Nothing measured on an accelerator says anything about a processor."""
        vendor = self.hardware.accelerator.vendor
        if vendor == HOST:
            return None
        fit, read = load_prior()
        op = key.partition("/")[0]
        of_link = op + OVER_HOST if key.endswith(OVER_HOST) else op
        wanted = next((name for name in (f"{op}/{vendor}", of_link, op, *nearest(key)) if name in fit.families), None)
        if wanted is None:
            return None
        self.inputs[read.name] = read
        family = fit.families[wanted]
        # memory of more bandwidth than any that was measured is kept busy by more bytes in flight, which wait as much less;
        # what a call of a vendor's own machines waits for is its host
        own = wanted == f"{op}/{vendor}"
        faster = 1.0 if own else max(self.chip.bandwidth / family.range["bandwidth"][1], 1.0)
        values = {name: value / faster if name in ("launch", "wait") else value for name, value in family.parameters.items()}
        accelerator = self.hardware.accelerator
        # kernels reach a share of the best product; experts, at a third of the peak, are held up by other things than clocks
        if accelerator.best_matmul is not None and op != "moe":
            values["compute"] *= accelerator.best_matmul.value / self.chip.peaks["bf16"] / BEST_MATMUL
        return Fitted(wanted, family, FORMS[family.form], values, fit, "prior", same_architecture=False)

    def _typical(self, key: str) -> Fitted | None:
        """Of copies to and from the host no records are published: the values that their form starts from, and a wide
        band."""
        if key not in ASSUMED:
            return None
        form = forms_by_op()[key][0]
        family = Family(form=form.name, parameters=form.starts(), rows=0, shapes=0, bands={"all": WIDE}, range={})
        return Fitted(key, family, form, family.parameters, None, "assumed")

    def _candidates(self, key: str, *, over_host: bool) -> Iterator[Fitted]:
        """Best first: what was measured on this accelerator, or on one of its architecture, in these formats; in others;
        on others of the vendor. Of each the wanted backend first. Communication over the host has only what was measured so,
        and that over links of devices likewise."""
        accelerator, such = self.hardware.accelerator, exact(key)
        others = [wanted for wanted in nearest(key) if wanted not in such]
        linked = key.partition("/")[0] in LINKED
        own = (accelerator.name,) if not linked or _measured_over_host(accelerator) == over_host else ()
        for formats in (such, others):
            yield from self._in(own, key, formats)
            yield from self._in(self._others(formats, linked, over_host, same_architecture=True), key, formats)
        elsewhere = self._others([*such, *others], linked, over_host, same_architecture=False)
        yield from self._in(elsewhere, key, [*such, *others])

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
            self._texts[path] = cached_text(path)
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
        )

    def of_user(self, fitted: Fitted) -> bool:
        """Whether a fit is in the file that was given as the backend, and so of the user's own machine."""
        return self.backend is not None and _is_file(self.backend) and fitted.fit == self._load(Path(self.backend))

    @property
    def _wanted(self) -> str | None:
        """The backend by its name; of a file, the one that it is of."""
        if self.backend is None:
            return None
        return self._load(Path(self.backend)).backend if _is_file(self.backend) else self.backend

    def check(self) -> None:
        """Check that the backend is known.

        Raises:
            UnknownNameError: no accelerator has a fit of the backend.
            InputError: the backend is a file that is of another accelerator.
        """
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

    def _others(self, formats: list[str], linked: bool, over_host: bool, *, same_architecture: bool) -> list[str]:
        """The vendor's other accelerators with a fit of one of these families, of the same architecture or of another, the
        nearest in peak and bandwidth first. Kernels of one vendor say nothing about those of another."""
        own = self.hardware.accelerator.name
        if self.hardware.accelerator.compute_units is None:
            return []  # forms deal tiles out to the units
        listed = (
            name for name in self._listed
            if name != own and any(self._names(path, wanted) for path in self._listed[name] for wanted in formats)
        )  # fmt: skip
        fitting = (
            name for name in listed
            if (self._chip(name).architecture == self.chip.architecture) is same_architecture
            and self._chip(name).hardware.accelerator.vendor == self.hardware.accelerator.vendor
            and (not linked or _measured_over_host(self._chip(name).hardware.accelerator) == over_host)
        )  # fmt: skip
        return sorted(fitting, key=self._distance)

    @cached_property
    def _listed(self) -> dict[str, list[Path]]:
        """The files of every accelerator."""
        return fit_files()

    def _distance(self, accelerator: str) -> float:
        """The distance of another accelerator: logarithms of the ratios of peak and bandwidth."""
        here, there = self.chip, self._chip(accelerator)
        return abs(math.log(here.bandwidth / there.bandwidth)) + abs(math.log(here.sixteen_bit / there.sixteen_bit))

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


def fits_for(hardware: Hardware, backend: str | None) -> Fits:
    """Return the fits for an accelerator and a backend. A page has one object for all its states, with what was looked up."""
    return Fits(hardware, backend)


def _measured_over_host(accelerator: Accelerator) -> bool:
    """Whether communication was measured over the host's PCIe: on accelerators that have no links of their own."""
    return not accelerator.links or accelerator.links[0].over_host


def _check(path: Path, key: str, family: Family) -> None:
    """A family's form has to exist, and to have these parameters; rates and sizes, which it divides by, are above 0."""
    try:
        form = FORMS[family.form]
    except UnknownNameError as error:
        raise SpecError(f"families.{key}.form: {error}", path=path) from None
    wanted, given = {parameter.name for parameter in form.parameters}, set(family.parameters)
    if unknown := sorted(given - wanted):
        raise SpecError(f"families.{key}: {UnknownNameError(f'parameter of {form.name}', unknown[0], wanted)}", path=path)
    if missing := sorted(wanted - given):
        raise SpecError(f"families.{key}.parameters: {missing[0]!r} of form {form.name} is missing", path=path)
    for parameter in form.parameters:
        if parameter.unit != "s" and parameter.low > 0 and family.parameters[parameter.name] == 0:
            why = f"is 0, and the time is divided by it: {parameter.meaning}"
            raise SpecError(f"families.{key}.parameters.{parameter.name}: {why}", path=path)


def _is_file(backend: str) -> bool:
    return backend.endswith((".yaml", ".yml"))


def slug(backend: str) -> str:
    """Return the name of a backend as part of a file's name.

    >>> slug("sarathi/vllm+torch")
    'sarathi-vllm-torch'
    """
    return "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in backend.lower()).strip("-")
