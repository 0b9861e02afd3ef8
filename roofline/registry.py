"""Registries: kinds of things that can be added, by name; and what a package provides to packages below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from roofline.errors import UnknownNameError

if TYPE_CHECKING:
    import plotly.graph_objects as go

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Things of one kind by name: those that ship, in the order given, then those of installed packages.

    Args:
        kind: what one of them is called in messages, such as "scheduler".
        items: those that ship. The package that makes the registry imports them by statement; or they are given by name as
            references, "package.module:object" as entry points have them, and each is imported when it is looked up.
        group: the entry-point group by which other packages add theirs; an entry point loads to an item. They are loaded
            when all items are listed, or one is looked up that does not ship. "" if the kind is closed.
        key: the name of an item; its attribute `name` unless given.
        accepts: the type that an entry point has to load to; None: any.

    Raises:
        TypeError: two items have one name, or an entry point loads to something else.

    >>> from types import SimpleNamespace
    >>> fruits = Registry("fruit", [SimpleNamespace(name="apple"), SimpleNamespace(name="pear")])
    >>> list(fruits), fruits["pear"].name, "plum" in fruits
    (['apple', 'pear'], 'pear', False)
    """

    def __init__(
        self,
        kind: str,
        items: Iterable[T] | Mapping[str, str] = (),
        *,
        group: str = "",
        key: Callable[[T], str] = attrgetter("name"),
        accepts: type | None = None,
    ) -> None:
        self.kind, self.group = kind, group
        self._key, self._accepts = key, accepts
        self._items: dict[str, T] = {}
        self._references: dict[str, str] = {}
        self._loaded = not group
        if isinstance(items, Mapping):
            self._references.update(items)
        else:
            for item in items:
                self.register(item)

    def register(self, item: T) -> T:
        """Add an item and return it, so that it can decorate a class or a function.

        Raises:
            TypeError: another item has its name.
        """
        name = self._key(item)
        if (known := self._shipped(name)) is None:
            known = self._items[name] = item
        if known is not item:
            msg = f"two {self.kind}s are called {name!r}: {_where(known)} and {_where(item)}"
            raise TypeError(msg)
        return item

    def __getitem__(self, name: object) -> T:
        """The item of a name.

        Raises:
            UnknownNameError: there is none; it lists them and names the nearest.
        """
        item: T | None = self.get(name)
        if item is None:
            raise UnknownNameError(self.kind, name, self, list_all=True)
        return item

    def get(self, name: object, default: Any = None) -> Any:
        """The item of a name, or `default` if there is none."""
        if not isinstance(name, str):
            return default
        # NB: packages are searched for plug-ins only where nothing that ships has the name
        if (item := self._shipped(name)) is not None:
            return item
        self._load()
        return self._items.get(name, default)

    def __contains__(self, name: object) -> bool:
        """Whether there is an item of that name."""
        if name in self._items or name in self._references:
            return True
        self._load()
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        """Names, in order of registration."""
        self._load()
        return iter([*self._references, *(name for name in self._items if name not in self._references)])

    def __len__(self) -> int:
        """Number of items."""
        self._load()
        return len(self._references.keys() | self._items.keys())

    def _shipped(self, name: str) -> T | None:
        """The item of a name, if it was registered or there is a reference to it."""
        if name not in self._items and name in self._references:
            module, _, attribute = self._references[name].partition(":")
            item: T = getattr(import_module(module), attribute)
            if self._key(item) != name:
                msg = f"{self._references[name]} is {self.kind} {self._key(item)!r}, not {name!r}"
                raise TypeError(msg)
            self._items[name] = item
        return self._items.get(name)

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        from importlib.metadata import entry_points

        for point in entry_points(group=self.group):
            item = point.load()
            if self._accepts is not None and not (
                isinstance(item, self._accepts) or (isinstance(item, type) and issubclass(item, self._accepts))
            ):
                msg = f"entry point {point.name!r} of {self.group} loads to {item!r}, not to a {self._accepts.__name__}"
                raise TypeError(msg)
            self.register(item)


def _where(item: object) -> str:
    module = getattr(item, "__module__", None)
    return f"{module}.{getattr(item, '__qualname__', type(item).__qualname__)}" if module else repr(item)


class Provided(Generic[T]):
    """Something that a package provides to packages below it, which do not import it. It is loaded at its first use.

    Args:
        what: its name in messages.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._load: Callable[[], T] | None = None

    def provide(self, load: Callable[[], T]) -> None:
        """Set the function that loads it."""
        self._load = load

    def __call__(self) -> T:
        """Return what was provided.

        Raises:
            LookupError: nothing was.
        """
        if self._load is None:
            raise LookupError(f"nothing provides {self.what}")
        return self._load()


class Renderer(Protocol):
    """Renders results."""

    def page(self, result: Any, /) -> str:
        """A whole HTML document of an analysis."""

    def notebook(self, result: Any, /) -> str:
        """A result as an HTML fragment, as notebooks show it."""

    def text(self, result: Any, /) -> str:
        """A result as lines of text, as `print` shows it."""


RENDERER: Provided[Renderer] = Provided("a renderer of results")
"""`roofline` provides `roofline.report.html`."""


class FigureRenderer(Protocol):
    """Renders a figure of a result."""

    def __call__(self, result: Any, name: str | None, /, *, dark: bool = False) -> go.Figure:
        """The figure of that name; of None the first."""


FIGURE: Provided[FigureRenderer] = Provided("a renderer of figures")
"""`roofline` provides `roofline.report.figures.figure`."""


class Displayed:
    """A result that people look at: `print` shows its answer as text, a notebook with a figure and tables; it has figures."""

    __slots__ = ()

    def figure(self, name: str | None = None, *, dark: bool = False) -> go.Figure:
        """A figure of this result as a plotly object, with the traces, axes and texts that it has on the page.

        Args:
            name: such as "roofline"; an unknown one lists all. None: the first, which is the one that a notebook shows.
                `roofline.report.figures.figure_names` returns them.
            dark: for a dark background. The background itself is transparent.

        Raises:
            UnknownNameError: the result has no such figure.
            InputError: a model or hardware that was given as an object, whose files are not known.
        """
        return FIGURE()(self, name, dark=dark)

    def __str__(self) -> str:
        return RENDERER().text(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {RENDERER().text(self).partition(chr(10))[0]}>"

    def _repr_html_(self) -> str:
        return RENDERER().notebook(self)
