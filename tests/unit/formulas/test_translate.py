"""What single constructs become in JavaScript, and what is refused; tests/parity holds what they answer against Python."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import ModuleType

import pytest

from roofline.formulas.javascript import EVALUATED, Program
from roofline.formulas.javascript.program import RUNTIME
from roofline.text import clean

FOLDER = Path(__file__).resolve().parents[2]


def module(folder: Path, code: str) -> ModuleType:
    """A module with this code, in a file as the translator needs it."""
    path = folder / "sample.py"
    path.write_text(textwrap.dedent(code), encoding="utf-8")
    made = ModuleType("sample")
    made.__file__ = str(path)
    sys.modules["sample"] = made  # where dataclasses look
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(made))  # noqa: S102 - code of these tests
    return made


def script(made: Program) -> str:
    """What a program adds to the runtime."""
    text = made.source()
    runtime = RUNTIME.read_text(encoding="utf-8")
    assert text.startswith(runtime)
    return text.removeprefix(runtime)


def translated(folder: Path, code: str) -> str:
    """The program of the function `f` of a module."""
    made = Program({}, folders=(folder,))
    made.export("f", module(folder, code).f)
    return script(made)


def body(folder: Path, statements: str) -> str:
    """The inside of a function of `a`, `b` and `c`."""
    inside = textwrap.indent(textwrap.dedent(statements), "    ")
    first = translated(folder, f"def f(a, b=0, c=0):\n{inside}\n").splitlines()[1]
    start = "function sample_f(a,b=0,c=0){"
    assert first.startswith(start)
    return first.removeprefix(start).removesuffix("}")


@pytest.mark.parametrize(
    ("python", "javascript"),
    [
        ("a + b * 2", "$.add(a,$.mul(b,2))"),
        ("a // b - -c", "$.sub($.floordiv(a,b),-(c))"),
        ("a < b <= c", "(a<b&&b<=c)"),
        ("a == b != c", "($.eq(a,b)&&!($.eq(b,c)))"),
        ("a is None", "((a??null)===(null??null))"),
        ("(a, 1) < (b, 2)", "($.compare([a,1],[b,2])<0)"),
        ("a in b and a not in c", "(($.contains(b,a))&&(!($.contains(c,a))))"),
        ("a or b", "(($t)=>$.truthy($t)?$t:b)(a)"),
        ("b if not a else c", "(!$.truthy(a)?b:c)"),
        ("[*a, b]", "[...$.iter(a),b]"),
        ("{**a, 'k': b}", '$.dict([...a.pairs(),["k",b]])'),
        ("{a, b}", "$.set([a,b])"),
        ("a[0], a[1:], a[:b]", "[$.at(a,0),$.slice(a,1,null),$.slice(a,null,b)]"),
        ("f'{a}: {b:,.1f} {c!r}'", '($.str(a)+": "+$.format(b,(",.1f"))+" "+$.str($.repr(c)))'),
        (
            "[x for x in a if x]",
            "(()=>{const $r=[];const $s=$.iter(a);for(const x of $s)if($.truthy(x)){$r.push(x);}return $r;})()",
        ),
        ("next(x for x in a)", "$.next((function*(){const $s=$.iter(a);for(const x of $s){yield x;}})())"),
        ("sum(x for x in a)", "$.sum((()=>{const $r=[];const $s=$.iter(a);for(const x of $s){$r.push(x);}return $r;})())"),
        ("any(x < 1 for x in a)", "(()=>{const $s=$.iter(a);for(const x of $s){if((x<1))return true;}return false;})()"),
        ("all(x for x in a)", "(()=>{const $s=$.iter(a);for(const x of $s){if(!$.truthy(x))return false;}return true;})()"),
        ("lambda x, y=a: x", "((($d0)=>(x,y=$d0)=>{return x;})(a))"),
        ("max(a, key=len), min(a, b)", "[$.max(a,$.len),$.min([a,b])]"),
        ("sorted(a, reverse=True)", "$.sorted(a,undefined,true)"),
        ("isinstance(a, int | None)", "$.isinstance(a,$.int,null)"),
        ("a.get(b, 1), a.items()", "[$.method.get(a,b,1),$.method.items(a)]"),
        ("next(iter(a))", "$.next($.iter(a))"),
        ("1e400, -1e400", "[Infinity,-(Infinity)]"),
    ],
)
def test_expressions(python: str, javascript: str, tmp_path: Path) -> None:
    assert body(tmp_path, f"a = {python}") == f"a={javascript};"


@pytest.mark.parametrize(
    ("python", "javascript"),
    [
        ("x, (y, _) = a", "let _,x,y;[x,[y,]]=$.list(a);"),
        ("x, *y = a", "let x,y;[x,...y]=$.list(a);"),
        ("a[0], b = c", "{const $v=$.list(c);$.put(a,0,$.at($v,0));b=$.at($v,1);}"),
        ("x = y = a", "let x,y;{const $v=a;x=$v;y=$v;}"),
        ("a[b] += 1", "$.put(a,b,$.iadd($.at(a,b),1));"),
        ("a |= b", "a=$.ior(a,b);"),
        ("del a[b]", "$.remove(a,b);"),
        ("del a, b", ""),
        ("while a:\n    break", "while($.truthy(a)){break;}"),
        ("for x in a:\n    continue", "let x;for(x of $.iter(a)){continue;}"),
        ("if (x := a):\n    pass\nelse:\n    return", "let x;if($.truthy((x=a))){}else{return null;}"),
        ("new = a\nreturn new", "let new_;new_=a;return new_;"),
        ("def g(x=1):\n    yield x\nreturn g", "let g;g=function*(x=1){yield x;};return g;"),
        ("raise ValueError('no')", 'throw new Error("no");'),
        (
            "try:\n    return a\nexcept KeyError:\n    return b",
            "try{return a;}catch($e){if(!($e instanceof $.Exception)){return b;}else{throw $e;}}",
        ),
        ("import math\nfrom math import pi\nreturn math.floor(pi)", "return Math.floor(3.141592653589793);"),
    ],
)
def test_statements(python: str, javascript: str, tmp_path: Path) -> None:
    assert body(tmp_path, python) == javascript


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        ("with a:\n    pass", "cannot translate `with a"),
        ("try:\n    pass\nfinally:\n    pass", "cannot translate `try"),
        ("for x in a:\n    pass\nelse:\n    pass", "cannot translate `for x in a"),
        ("global x", "cannot translate `global x`"),
        ("return a[::2]", "cannot translate `a\\[::2\\]`"),
        ("return a @ b", "cannot translate `a @ b`"),
        ("return ~a", "cannot translate `~a`"),
        ("return b'x'", "cannot translate `b'x'`"),
        ("return unheard_of", "`unheard_of`: nothing has this name"),
        ("return print(a)", r"cannot translate builtins\.print: it is not ours"),
        ("return iter(a)", r"cannot translate builtins\.iter: it is not ours"),
        ("return a.__class__", r"cannot translate `a\.__class__`"),
        ("a.sort()", "it is not what JavaScript has"),
        ("return a.split(maxsplit=1, by=2)", "it is not what JavaScript has"),
        ("return a.startswith('x', 1)", "it is not what JavaScript has"),
        ("return int(a, 16)", r"cannot translate `int\(a, 16\)`"),
        ("return a(b=1)", r"cannot translate `a\(b=1\)`"),
        ("*x, y = a", r"`\(\*x, y\)`: \*values have to be last"),
        ("return a < b() < c", "would be evaluated twice"),
        ("return {1} <= a", "the order of sets"),
        ("return '%s' % a", "a text is filled in"),
        ("def g(x=[]):\n    return x", "one for all calls"),
        ("return [lambda: x for x in a]", "functions see the last value of a loop"),
        ("_ = a\nreturn _", "what is called _ is not kept"),
        ("return f'{a!a}'", "letters would be escaped"),
        ("@staticmethod\ndef g():\n    pass", "functions have cache alone"),
        ("from math import floor\nMath = a\nreturn floor(Math)", r"`Math`: in JavaScript it hides math\.floor"),
    ],
)
def test_refused_statements(statements: str, reason: str, tmp_path: Path) -> None:
    """What is not translated, and what would mean something else, is an error that says where."""
    with pytest.raises(TypeError, match=reason):
        body(tmp_path, statements)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("async def f(): pass", "sample.f: 0 definitions begin in line 2"),
        ("f, g = lambda: 1, lambda: 2", "2 definitions begin in line 2"),
        ("@functools.lru_cache\nclass f: pass", r"cannot translate .*: it is not ours"),
        ("def g(): return 1\ndef f():\n    sample_g = g()\n    return sample_g", "`sample_g`: in JavaScript it hides sample.g"),
        ("class f:\n    def __len__(self): return 1", "sample.f: cannot translate __len__"),
        ("class f:\n    @functools.cache\n    def g(self): return 1", "sample.f: cannot translate g"),
        ("class f:\n    g = lambda self: 1", "sample.f.<lambda>: cannot translate a lambda as a method"),
        ("@dataclass(order=True)\nclass f:\n    x: int", "sample.f: cannot translate order=True"),
        ("@dataclass(eq=False)\nclass f:\n    x: int", "sample.f: cannot translate eq=False"),
        ("class f(dict): pass", "sample.f: cannot translate dict"),
        ("class A: pass\nclass B: pass\nclass f(A, B): pass", "sample.f: cannot translate several bases"),
        ("def f(): return 2**53 + 1, 9007199254740993", "JavaScript does not have the number 9007199254740993"),
        ("K = object()\ndef f(): return K", "cannot write <object object at .*> as data"),
        ("def f(): return json.loads('1')", r"sample\.f: cannot translate json\.loads: it is not ours"),
        (
            "class A:\n    def g(self, x, y=2): pass\nclass B:\n    def g(self, y): pass\ndef f(a): return A(), B(), a.g(y=3)",
            "methods of this name differ",
        ),
    ],
)
def test_refused_definitions(code: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=reason):
        translated(tmp_path, f"import functools, json; from dataclasses import dataclass, field\n{code}\n")


def test_functions_are_found_by_following_references(tmp_path: Path) -> None:
    code = """
        from functools import cache
        K = (1, 2)
        def g(x, *, scale=2): return x * scale + K[0]
        @cache
        def h(): return g(1, scale=3)
        def unused(): return 1
        def f(): return [g(x) for x in K], h()
    """
    text = translated(tmp_path, code)
    assert "function sample_g(x,scale=2){return $.add($.mul(x,scale),$.at(K0(),0));}" in text
    assert "const sample_h=$.memo(()=>{return sample_g(1,3);});" in text
    assert "const K0=$.lazy(()=>$.revive([1,2]));" in text
    assert "unused" not in text
    assert text.endswith("return{f:sample_f};\n})();\n")


def test_classes(tmp_path: Path) -> None:
    code = """
        from dataclasses import dataclass, field
        from functools import cached_property
        class Base:
            UNIT = "s"
            @property
            def x(self): return 0
        @dataclass(frozen=True)
        class Point(Base):
            x: int = 1
            tags: list = field(default_factory=list)
            @classmethod
            def of(cls, x): return cls(x)
            @staticmethod
            def half(x): return x / 2
            @cached_property
            def far(self): return self.x > 9
            def moved(self, by=1): return Point(self.x + by)
        def f(): return Point.of(1).moved(by=2), Point(tags=[], x=1)
    """
    _, function, base, point, *_ = translated(tmp_path, code).splitlines()
    assert function == "function sample_f(){return[Point.of(1).moved(2),new Point(1,[])];}"
    assert base == 'class Base extends $.Obj{get x(){const self=this;return 0;}}$.attributes(Base,{UNIT:$.revive("s")});'
    assert point == (
        "class Point extends Base{"
        'constructor(x_=1,tags_=$.list()){super($.SKIP);if(x_===$.SKIP)return;$.field(this,"x",x_);this.tags=tags_;}'
        "static of(x){const cls=this;return new cls(x);}of(...given){return this.constructor.of(...given);}"
        "static half(x){return $.div(x,2);}half(...given){return this.constructor.half(...given);}"
        'get far(){const self=this;return $.keep(this,"far",()=>{return(self.x>9);});}'
        "moved(by=1){const self=this;return new Point($.add(self.x,by));}"
        '}Point.$fields=["x","tags"];'
    )


def test_methods_that_are_found_later(tmp_path: Path) -> None:
    """The parameters of a method may be known after its call is translated, and change what that refers to."""
    code = """
        class Later:
            def g(self, a=1, b=2): return self.h(b=a)
            def h(self, a=3, b=4): return a
        def f(x): return x.g(b=5), found()
        def found(): return Later()
    """
    text = translated(tmp_path, code)
    assert "return[x.g(undefined,5),sample_found()];" in text
    assert "return self.h(undefined,a);" in text


def test_what_stands_for_a_function(tmp_path: Path) -> None:
    """Natives are used as they are; what is evaluated is called once, while translating."""
    asked = []
    code = """
        import time
        def clock():
            return asked()
        def f(): return time.sleep(1), clock(), clock
        class Kind:
            @classmethod
            def named(cls): return cls.__name__
        class Sub(Kind): pass
        def g(): return Sub.named(), Sub()
    """
    sample = module(tmp_path, code)
    sample.asked = lambda: asked.append(1) or [5]
    natives = {time.sleep: "page.sleep", sample.clock: EVALUATED, sample.Kind.named: EVALUATED}
    made = Program(natives, folders=(tmp_path,))
    made.export("f", sample.f)
    made.export("g", sample.g)
    text = script(made)
    assert "return[page.sleep(1),(()=>K0())(),(()=>K0())];" in text
    assert 'class Sub extends Kind{static named(){return "Sub";}' in text
    assert asked == [1]


def test_only_folders_that_are_given(tmp_path: Path) -> None:
    """Code is translated from these folders alone: by default this package's."""
    sample = module(tmp_path, "def f(): return 1")
    with pytest.raises(TypeError, match=r"sample\.f: it is not ours"):
        Program({}).export("f", sample.f)
    with pytest.raises(TypeError, match=r"roofline\.text\..*: it is not ours"):
        Program({}, folders=(tmp_path,)).export("f", clean)


def test_data(tmp_path: Path) -> None:
    """Values as JSON: what JSON does not have says what it is, default values are left out, sets are in an order."""
    code = """
        from dataclasses import dataclass
        @dataclass(frozen=True)
        class Point:
            x: int
            y: int = 0
            way: object = None
        def f(): return 1
    """
    sample = module(tmp_path, code)
    made = Program({}, folders=(tmp_path,))
    assert made.encode((1, "a", None, float("inf"))) == [1, "a", None, {"$n": "inf"}]
    assert made.encode({"b": 1, "a": 2}) == {"$o": {"b": 1, "a": 2}}
    assert made.encode({"b": 1, "10": 2}) == {"$d": [["b", 1], ["10", 2]]}  # JavaScript would put 10 first
    assert made.encode({(1, 2): 3}) == {"$d": [[[1, 2], 3]]}
    assert made.encode({"b", "a", "c"}) == {"$s": ["a", "b", "c"]}
    assert made.encode({sample.Point(2), sample.Point(1, 5)}) == {
        "$s": [{"$": "Point", "x": 1, "y": 5}, {"$": "Point", "x": 2}]
    }
    assert made.encode(sample.Point) == {"$c": "Point"}
    assert made.encode([sample.f]) == [{"$f": "sample_f"}]
    with_function = sample.Point(1, way=sample.f)
    assert made.encode([with_function, with_function]) == [{"$k": "K0"}, {"$k": "K0"}]
    text = script(made)
    assert 'const K0=$.lazy(()=>$.revive({"$":"Point","x":1,"way":{"$f":"sample_f"}}));' in text
    assert "$.functions.sample_f=sample_f;" in text


def test_addresses_order_nothing(tmp_path: Path) -> None:
    """Two functions of one name in a set: what else there is orders their objects."""
    code = """
        from dataclasses import dataclass
        @dataclass(frozen=True)
        class Form:
            way: object
            x: int
        def made():
            def way(): return 1
            return way
    """
    sample = module(tmp_path, code)
    lower, upper = sorted((sample.made(), sample.made()), key=id)
    made = Program({}, folders=(tmp_path,))
    assert made.encode({sample.Form(upper, 1), sample.Form(lower, 2)}) == {"$s": [{"$k": "K0"}, {"$k": "K1"}]}
    assert re.findall(r'"x":(.)', script(made)) == ["1", "2"]


@pytest.mark.slow
def test_the_same_inputs_make_the_same_bytes() -> None:
    """Whatever the order of hashes and of addresses in memory is, and however often it is asked."""
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import samples_translated
from pathlib import Path
from roofline.formulas.javascript import Program
junk = [object() for _ in range(int(sys.argv[2]))]
made = Program({}, folders=(Path(samples_translated.__file__).parent,))
made.export("sets", samples_translated.sets_of_everything)
made.export("objects", samples_translated.class_methods_through_objects)
once = made.source()
assert made.source() == once
print(once)
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code, str(FOLDER), seed],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(FOLDER.parent)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "30000")
    }
    assert len(found) == 1
