"""Registries: kinds of things that can be added, by name; and what a package provides to packages below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
        items: those that ship. The package that makes the registry imports them by statement.
        group: the entry-point group by which other packages add theirs; an entry point loads to an item. They are loaded
            at the first lookup. "" if the kind is closed.
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
        items: Iterable[T] = (),
        *,
        group: str = "",
        key: Callable[[T], str] = attrgetter("name"),
        accepts: type | None = None,
    ) -> None:
        self.kind, self.group = kind, group
        self._key, self._accepts = key, accepts
        self._items: dict[str, T] = {}
        self._loaded = not group
        for item in items:
            self.register(item)

    def register(self, item: T) -> T:
        """Add an item and return it, so that it can decorate a class or a function.

        Raises:
            TypeError: another item has its name.
        """
        name = self._key(item)
        if self._items.setdefault(name, item) is not item:
            msg = f"two {self.kind}s are called {name!r}: {_where(self._items[name])} and {_where(item)}"
            raise TypeError(msg)
        return item

    def __getitem__(self, name: str) -> T:
        """The item of a name.

        Raises:
            UnknownNameError: there is none; it lists them and names the nearest.
        """
        self._load()
        try:
            return self._items[name]
        except (KeyError, TypeError):
            raise UnknownNameError(self.kind, name, self._items, list_all=True) from None

    def get(self, name: str, default: Any = None) -> Any:
        """The item of a name, or `default` if there is none."""
        self._load()
        return self._items.get(name, default)

    def __contains__(self, name: object) -> bool:
        """Whether there is an item of that name."""
        self._load()
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        """Names, in order of registration."""
        self._load()
        return iter(self._items)

    def __len__(self) -> int:
        """Number of items."""
        self._load()
        return len(self._items)

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
    """Something that a package provides to packages below it, which do not import it. It is loaded when it is first used.

    Args:
        what: what it is called in messages.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._load: Callable[[], T] | None = None

    def provide(self, load: Callable[[], T]) -> None:
        """Set the function that loads it."""
        self._load = load

    def __call__(self) -> T:
        """What was provided.

        Raises:
            LookupError: nothing was.
        """
        if self._load is None:
            raise LookupError(f"nothing provides {self.what}")
        return self._load()


class HtmlRenderer(Protocol):
    """Renders an analysis as HTML."""

    def page(self, result: Any, /) -> str:
        """A whole document."""

    def body(self, result: Any, /) -> str:
        """The content alone, as notebooks show it."""


HTML: Provided[HtmlRenderer] = Provided("a renderer of results as HTML")
"""`roofline` provides `roofline.report.html`."""


class FigureRenderer(Protocol):
    """Renders a figure of a result."""

    def __call__(self, result: Any, name: str, /, *, dark: bool = False) -> go.Figure:
        """The figure of that name."""


FIGURE: Provided[FigureRenderer] = Provided("a renderer of figures")
"""`roofline` provides `roofline.report.figures.figure`."""


class HasFigures:
    """A result of which there are figures: those of its page."""

    __slots__ = ()

    def figure(self, name: str, *, dark: bool = False) -> go.Figure:
        """A figure of this result as a plotly object, with the traces, axes and texts that it has on the page.

        Args:
            name: such as "roofline"; an unknown one lists all. `roofline.report.figures.figure_names` returns them.
            dark: for a dark background. The background itself is transparent.

        Raises:
            UnknownNameError: the result has no such figure.
            InputError: a model or hardware that was given as an object, whose files are not known.
        """
        return FIGURE()(self, name, dark=dark)
