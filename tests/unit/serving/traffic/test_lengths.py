"""Distributions of lengths: closed forms against arithmetic and scipy.stats, what stands for them, what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.serving.traffic import parse_lengths
from roofline.serving.traffic.lengths import DISTRIBUTIONS

EXAMPLES = ("1024", "uniform:128:2k", "lognormal:1155:900", "lognormal:211:160:1k", "gamma:800:800", "gamma:90:400:1000")


def test_one_length() -> None:
    """A number is that length each time; 8k is 8192."""
    found = parse_lengths("8k")
    assert (found.text, found.mean, found.variance, found.minimum, found.maximum) == ("8192", 8192, 0, 8192, 8192)
    assert found.quantiles(3).tolist() == [8192] * 3
    assert parse_lengths(8192) == found


def test_uniform() -> None:
    """1, 2, 3, 4: mean 2.5, variance (4 x 4 - 1)/12 = 1.25; halves have the means 1.5 and 3.5, which make 5."""
    found = parse_lengths("uniform:1:4")
    assert (found.mean, found.variance, found.minimum, found.maximum) == (2.5, 1.25, 1, 4)
    assert found.quantiles(4).tolist() == [1, 2, 3, 4]
    assert found.quantiles(2).tolist() == [2, 3]
    assert found.below(0.375) == (1 * 0.25 + 2 * 0.125)
    assert [found.quantile(u) for u in (0, 0.3, 0.99)] == [1, 2, 4]


def test_lognormal_is_of_the_lengths_themselves() -> None:
    """Median = MEAN / sqrt(1 + (SD/MEAN)^2) = 1155/1.26776 = 911; mean and deviation are those that are written."""
    found = parse_lengths("lognormal:1155:900")
    assert found.mean == pytest.approx(1155)
    assert found.variance == pytest.approx(900**2)
    assert found.quantile(0.5) == round(1155 / math.sqrt(1 + (900 / 1155) ** 2)) == 911
    assert found.maximum is None


def test_gamma_of_cv_one_is_exponential() -> None:
    """Median 800 ln 2; with lengths below 1 counted as 1 the mean is 1 + 800 exp(-1/800)."""
    found = parse_lengths("gamma:800:800")
    assert found.quantile(0.5) == round(800 * math.log(2))
    assert found.mean == pytest.approx(1 + 800 * math.exp(-1 / 800), rel=1e-12)
    u = 0.9  # the Lorenz curve of an exponential distribution
    assert found.below(u) == pytest.approx(800 * (u + (1 - u) * math.log(1 - u)), abs=1e-3)


@pytest.mark.parametrize(
    ("text", "law", "longest"),
    [
        (f"lognormal:{mean}:{deviation}:{longest}", "lognormal", longest)
        for mean, deviation, longest in ((1155, 900, 4096), (211, 160, 211), (2, 5, 40))
    ]
    + [("gamma:90:400:1000", "gamma", 1000), ("gamma:5:2:9", "gamma", 9)],
)
def test_cut_at_a_longest_length(text: str, law: str, longest: int) -> None:
    """Mean and variance are those of what is left when draws above MAX are drawn again, and those below 1 count as 1."""
    mean, deviation = (float(part) for part in text.split(":")[1:3])
    if law == "lognormal":
        sigma = math.sqrt(math.log(1 + (deviation / mean) ** 2))
        dist = scipy.stats.lognorm(sigma, scale=mean * math.exp(-(sigma**2) / 2))
    else:
        dist = scipy.stats.gamma((mean / deviation) ** 2, scale=deviation**2 / mean)
    left = dist.cdf(longest)
    first, second = (
        (dist.cdf(1) + dist.expect(lambda x, k=k: x**k, lb=1, ub=longest)) / left  # type: ignore[misc]
        for k in (1, 2)
    )
    found = parse_lengths(text)
    assert found.mean == pytest.approx(first, rel=1e-6)
    assert found.variance == pytest.approx(second - first**2, rel=1e-5)
    assert found.maximum == longest
    assert found.quantile(0.999999999) <= longest
    assert found.quantile(0.75) == round(dist.ppf(0.75 * left))


@pytest.mark.parametrize("text", [*EXAMPLES, "lognormal:2:5", "lognormal:3:1"])
def test_samples_have_the_mean_and_the_ends(text: str) -> None:
    """Within five standard errors; whole, within the ends, and the same for the same seed."""
    found = parse_lengths(text)
    drawn = found.sample(np.random.default_rng(7), 100_000)
    assert drawn.dtype == np.int64
    assert drawn.min() >= found.minimum
    assert found.maximum is None or drawn.max() <= found.maximum
    assert abs(drawn.mean() - found.mean) <= 5 * math.sqrt((found.variance + 0.25) / len(drawn))
    assert (found.sample(np.random.default_rng(7), 100_000) == drawn).all()


_COUNTS = st.integers(1, 200_000)
_SPREADS = st.tuples(st.sampled_from(["lognormal", "gamma"]), st.integers(1, 100_000), st.floats(0.05, 4.0)).map(
    lambda drawn: f"{drawn[0]}:{drawn[1]}:{drawn[1] * drawn[2]:.6g}"
)
_CUT = st.tuples(_SPREADS, st.floats(1.0, 20.0)).map(
    lambda drawn: f"{drawn[0]}:{math.ceil(int(drawn[0].split(':')[1]) * drawn[1])}"
)
_TEXTS = st.one_of(
    _COUNTS.map(str), st.tuples(_COUNTS, _COUNTS).map(lambda ends: f"uniform:{min(ends)}:{max(ends)}"), _SPREADS, _CUT
)


@settings(max_examples=150, deadline=None)
@given(text=_TEXTS, n=st.integers(1, 300))
@example(text="uniform:1:168", n=211)  # the last slice is 168 alone, with half a token owed
def test_representatives_keep_mean_and_order(text: str, n: int) -> None:
    """Their sum is off by at most half a token, so that their mean is within 1e-3 where n x mean is above 500."""
    found = parse_lengths(text)
    chosen = found.quantiles(n)
    assert len(chosen) == n
    assert (np.diff(chosen) >= 0).all()
    assert chosen[0] >= max(found.minimum, 1)
    assert found.maximum is None or chosen[-1] <= found.maximum
    assert abs(chosen.sum() - n * found.mean) <= 0.5 + 1e-6 * n * found.mean
    assert chosen.std() <= math.sqrt(found.variance) + 1  # slices vary less than all, and rounding moves none by more than 1


@settings(max_examples=100, deadline=None)
@given(text=_TEXTS, low=st.floats(0, 1), high=st.floats(0, 1))
def test_lorenz_curve_is_convex_and_ends_at_the_mean(text: str, low: float, high: float) -> None:
    """Between 0 and the mean, and below the chord."""
    found = parse_lengths(text)
    low, high = min(low, high), max(low, high)
    middle = found.below((low + high) / 2)
    scale = 1e-7 * found.mean
    assert 0 <= found.below(low) <= middle + scale
    assert middle <= (found.below(low) + found.below(high)) / 2 + scale
    assert found.below(1.0) == pytest.approx(found.mean, rel=1e-9)


def test_lengths_of_a_file(tmp_path: Path) -> None:
    """One a line, or a column of a table; 2, 4, 4, 6 have the mean 4 and the variance (4 + 0 + 0 + 4)/4 = 2."""
    (tmp_path / "plain.txt").write_text("4\n2\n\n6\n4\n")
    (tmp_path / "one.csv").write_text("tokens\n4\n2\n6\n4\n")
    (tmp_path / "two.csv").write_text("id,tokens\n1,4\n2,2\n3,6\n4,4\n")
    for text in ("file:plain.txt", "file:one.csv", "file:two.csv:tokens"):
        found = parse_lengths(text, folder=tmp_path)
        assert (found.mean, found.variance, found.minimum, found.maximum) == (4, 2, 2, 6)
        assert found.quantiles(4).tolist() == [2, 4, 4, 6]
        assert found.quantiles(2).tolist() == [3, 5]
        assert set(found.sample(np.random.default_rng(1), 1000).tolist()) == {2, 4, 6}
        assert found.inputs[0].path.startswith(str(tmp_path))
    assert parse_lengths("file:plain.txt", folder=tmp_path) == parse_lengths("file:plain.txt", folder=tmp_path)


def test_a_file_that_changed_is_another_distribution(tmp_path: Path) -> None:
    """The content counts, not the name."""
    path = tmp_path / "lengths.txt"
    path.write_text("4\n")
    first = parse_lengths(f"file:{path}")
    path.write_text("5\n")
    assert parse_lengths(f"file:{path}") != first


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        ("4\nx\n6\n", "", "lengths.csv:2: a length must be a whole number such as 4096 or 4k, not 'x'"),
        ("tokens\n4\n0\n", "", "lengths.csv:3: a length must be at least 1, not 0"),
        ("4\n-3\n", "", "lengths.csv:2: a length must be at least 1, not -3"),
        ("4\n2.5\n", "", "lengths.csv:2: a length must be a whole number, and '2.5' is 2.5"),
        ("12x\n4\n", "", "lengths.csv:1: a length must be a whole number"),
        ("a,b\n1,2\n", "", "lengths.csv:1: has 2 columns: a, b. Name one"),
        ("a,b\n1,2\n", ":c", "unknown column 'c'. Known: a, b."),
        ("tokens,b\n1,2\n", ":token", "Did you mean tokens?"),
        ("a,b\n1,2\n3\n", ":b", "lengths.csv:3: a length must be a whole number"),
        ("1,2\n3,4\n", ":b", "has no header, so no column 'b'"),
        ("tokens\n", "", "has a header and no lengths beneath it"),
        ("", "", "the file is empty"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: str, column: str, message: str) -> None:
    """By file and line."""
    path = tmp_path / "lengths.csv"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        parse_lengths(f"file:{path}{column}", "--input-len")
    assert message in str(caught.value)
    assert str(caught.value).startswith("--input-len: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lognormal:1155", "it needs a mean and a standard deviation, such as lognormal:1155:900"),
        ("lognormal", "lognormal alone says nothing: write lognormal:MEAN:SD[:MAX], such as lognormal:1155:900"),
        ("lognormal:1155:0", "SD must be more than 0 and finite, not 0"),
        ("lognormal:-5:900", "MEAN must be more than 0 and finite, not -5"),
        ("lognormal:nan:900", "MEAN must be more than 0 and finite, not nan"),
        ("lognormal:inf:900", "MEAN must be more than 0 and finite, not inf"),
        ("lognormal:0.5:1", "MEAN must be at least 1 token, not 0.5"),
        ("lognormal:long:900", "MEAN must be a number of tokens, not 'long'"),
        ("lognormal:1155:900:1000", "MAX is 1,000, which is less than MEAN = 1,155"),
        ("lognormal:1155:900:4096:1", "it needs a mean and a standard deviation"),
        ("lognormal:1155:900:", "it needs a mean and a standard deviation"),
        ("uniform:9:3", "LO is 9 and HI is 3: the lower one comes first"),
        ("uniform:0:3", "LO must be at least 1, not 0"),
        ("uniform:1:2.5", "HI must be a whole number"),
        ("uniform:5", "it needs two lengths, such as uniform:128:2k"),
        ("logormal:3:4", "unknown distribution 'logormal'. Did you mean lognormal? Write 1024, "),
        ("0", "a length must be at least 1, not 0"),
        ("-8", "a length must be at least 1, not -8"),
        ("1.5", "a length must be a whole number"),
        ("long", "'long' is no length. Write 1024, "),
        ("", "'' is no length. Write 1024, "),
        ("file:", "names no file"),
        ("file:nowhere.txt", "nowhere.txt: no such file"),
        (True, "'True' is no length"),
        (None, "'None' is no length"),
    ],
)
def test_texts_that_are_refused(text: object, message: str) -> None:
    """What is wrong, and what is allowed."""
    with pytest.raises(InputError) as caught:
        parse_lengths(text, "--output-len")
    assert message in str(caught.value)
    assert str(caught.value).startswith("--output-len: ")


def test_every_kind_says_how_it_is_written() -> None:
    """Its example is of its form, and is read."""
    found = dict(DISTRIBUTIONS)
    assert {"", "uniform", "lognormal", "gamma", "file"} <= set(found)
    for kind in found.values():
        assert kind.about
        assert kind.syntax.startswith(kind.name)
        if kind.name != "file":
            assert parse_lengths(kind.example).mean >= 1
