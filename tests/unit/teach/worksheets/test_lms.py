"""Question banks: what a learning-management system reads in them, and what it would say to answers."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections import Counter
from zipfile import ZipFile

import pytest

from roofline.teach.markdown import plain
from roofline.teach.worksheets import TOPICS, sheet
from roofline.teach.worksheets.lms import moodle, qti
from roofline.teach.worksheets.problem import Answer, Mistake, Numbered, Problem
from roofline.teach.worksheets.sheet import Sheet

QTI = "{http://www.imsglobal.org/xsd/imsqti_v2p1}"
PACKAGE = "{http://www.imsglobal.org/xsd/imscp_v1p1}"
SEEDS = (3, 4)


def parsed(text: str | bytes) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - what we wrote


def flat(text: str) -> str:
    """Text without markup and without the differences of spaces."""
    return re.sub(r"\s+", "", text)


def words(element: ET.Element) -> str:
    return flat("".join(element.itertext()))


def moodle_says(question: ET.Element, text: str) -> tuple[str, str]:
    """Fraction and feedback of the first answer that a number with a unit matches: Moodle's `get_matching_answer`."""
    number, _, unit = text.partition(" ")
    sizes = {one.findtext("unit_name"): float(one.findtext("multiplier", "")) for one in question.iterfind("units/unit")}
    value = float(number) / (sizes[unit] if unit else 1.0)
    for answer in question.iterfind("answer"):
        right = answer.findtext("text", "")
        if right == "*" or abs(value - float(right)) <= float(answer.findtext("tolerance", "")):
            return answer.get("fraction", ""), answer.findtext("feedback/text", "")
    raise AssertionError("no answer matches")


@pytest.mark.parametrize("topic", TOPICS)
def test_moodle(topic: str) -> None:
    """A category of each template, a question of each seed; right and wrong answers get what the sheet's page gives them."""
    sheets = [sheet(topic, seed) for seed in SEEDS]
    questions = list(parsed(moodle(sheets)))
    kinds = Counter(question.get("type") for question in questions)
    assert kinds["category"] == len(sheets[0].problems)
    assert kinds["numerical"] + kinds["multichoice"] == len(SEEDS) * len(sheets[0].problems)
    by_id = {question.findtext("idnumber"): question for question in questions}
    for made in sheets:
        for entry in made.problems:
            question, problem = by_id[f"{entry.template}-{made.seed}"], entry.problem
            assert f"Answer: {problem.right_answer}" in question.findtext("generalfeedback/text", "").replace("&amp;", "&")
            if problem.answer.choices:
                answers = question.findall("answer")
                assert [answer.get("fraction") for answer in answers].count("100") == 1
                assert answers[int(problem.answer.value)].get("fraction") == "100"
                for mistake in problem.mistakes:
                    assert answers[int(mistake.value)].findtext("feedback/text")
                continue
            scale = 100 if problem.answer.kind == "share" else 1
            assert moodle_says(question, repr(problem.answer.value * scale))[0] == "100"
            assert moodle_says(question, repr(problem.answer.value * scale * 1.37e-7))[0] == "0"
            for mistake in problem.mistakes:
                fraction, feedback = moodle_says(question, f"{mistake.value * scale:.9g}")
                assert fraction == "0"
                assert words(parsed(f"<p>{feedback}</p>")) == flat(plain(mistake.hint)), mistake.name


def test_moodle_units() -> None:
    """128 KiB, 0.131 MB and 131072 are one number; 128 kB is the usual mistake; 25 % is written with or without its sign."""
    question = next(one for one in parsed(moodle([sheet("kv-cache", 1)])) if one.findtext("idnumber") == "kv-cache-per-token-1")
    for text in ("131072", "131072 B", "128 KiB", "0.131 MB"):
        assert moodle_says(question, text)[0] == "100"
    assert moodle_says(question, "128 kB")[0] == "0"
    assert "1.024 kB" in moodle_says(question, "128 kB")[1]
    assert question.findtext("units/unit/unit_name") == "B"
    share = next(one for one in parsed(moodle([sheet("energy", 3)])) if one.findtext("idnumber") == "energy-power-cap-3")
    assert moodle_says(share, "13.8 %")[0] == moodle_says(share, "13.8")[0] == "100"
    assert moodle_says(share, "0.138")[0] == "0"


def qti_says(item: ET.Element, text: str) -> tuple[float, str]:
    """Score and feedback of an answer, by the response processing of the item."""
    outcomes = {"SCORE": "0", "FEEDBACK": ""}
    condition = item.find(f"{QTI}responseProcessing/{QTI}responseCondition")
    assert condition is not None
    for branch in condition:
        if branch.tag != f"{QTI}responseElse":
            test = branch[0]
            value = test.findtext(f"{QTI}baseValue", "")
            if test.tag == f"{QTI}match":
                holds = text == value
            else:
                below, above = map(float, test.get("tolerance", "").split())
                holds = float(value) - below <= float(text) <= float(value) + above
            if not holds:
                continue
        for outcome in branch.iter(f"{QTI}setOutcomeValue"):
            outcomes[outcome.get("identifier", "")] = outcome.findtext(f"{QTI}baseValue", "")
        break
    (feedback,) = (one for one in item.iter(f"{QTI}modalFeedback") if one.get("identifier") == outcomes["FEEDBACK"])
    return float(outcomes["SCORE"]), words(feedback)


@pytest.mark.parametrize("topic", TOPICS)
def test_qti(topic: str) -> None:
    """Every file of the manifest is there, and no other; every reference leads somewhere; answers get score and hint."""
    sheets = [sheet(topic, seed) for seed in SEEDS]
    content = qti(sheets)
    assert qti(sheets) == content, "the same bytes again"
    with ZipFile(io.BytesIO(content)) as package:
        files = {name: parsed(package.read(name)) for name in package.namelist()}
    manifest = files.pop("imsmanifest.xml")
    resources = {one.get("identifier"): one for one in manifest.iter(f"{PACKAGE}resource")}
    assert [child.tag for child in manifest] == [f"{PACKAGE}{name}" for name in ("metadata", "organizations", "resources")]
    assert sorted(str(one.get("href")) for one in resources.values()) == sorted(files)
    assert all(re.fullmatch(r"[A-Za-z_][\w.-]*", str(identifier)) for identifier in resources)
    for resource in resources.values():
        assert {one.get("identifierref") for one in resource.iter(f"{PACKAGE}dependency")} <= set(resources)
        assert resource.get("type") in ("imsqti_test_xmlv2p1", "imsqti_item_xmlv2p1")
    for made in sheets:
        test = files[f"test-{topic}-{made.seed}.xml"]
        references = [one.get("href") for one in test.iter(f"{QTI}assessmentItemRef")]
        assert references == [f"{entry.template}-{made.seed}.xml" for entry in made.problems]
        for entry in made.problems:
            item, problem = files[f"{entry.template}-{made.seed}.xml"], entry.problem
            order = [child.tag.removeprefix(QTI) for child in item]
            assert order[:5] == [
                "responseDeclaration",
                "outcomeDeclaration",
                "outcomeDeclaration",
                "itemBody",
                "responseProcessing",
            ]
            assert set(order[5:]) == {"modalFeedback"}
            assert words(item.find(f"{QTI}itemBody")).startswith(flat(plain(problem.text)).lstrip(">")[:20])  # type: ignore[arg-type]
            scale = 100 if problem.answer.kind == "share" else 1

            def text(value: float, problem: Problem = problem, scale: int = scale) -> str:
                return f"choice-{int(value) + 1}" if problem.answer.choices else f"{value * scale:.9g}"

            assert item.findtext(f"{QTI}responseDeclaration/{QTI}correctResponse/{QTI}value") is not None
            score, said = qti_says(item, text(problem.answer.value))
            assert score == 1
            assert flat(f"Right: {problem.right_answer}.") in said
            for mistake in problem.mistakes:
                assert qti_says(item, text(mistake.value)) == (0, flat(plain(mistake.hint))), mistake.name


def test_markup_is_escaped() -> None:
    """Signs of markup in a problem are text in both."""
    problem = Problem(
        title="a < b & c",
        text='Is "x < y" & y > 0?',
        answer=Answer(value=2.0, kind="ratio"),
        mistakes=(Mistake(name="m", value=3.0, hint="x < y & not <b>y</b>."),),
        solution=("Since x < y & y > 0.",),
        source="a & b",
    )
    made = Sheet(
        topic="roofline",
        seed=1,
        title="T & U",
        problems=(Numbered(number=1, template="roofline-x", minutes=1, problem=problem),),
    )
    category, question = parsed(moodle([made]))
    assert category.findtext("category/text") == "$course$/top/roofline/T & U/a < b & c"
    assert words(parsed(f"<p>{moodle_says(question, '3')[1]}</p>")) == flat("x < y & not <b>y</b>.")
    with ZipFile(io.BytesIO(qti([made]))) as package:
        item = parsed(package.read("roofline-x-1.xml"))
    assert item.get("title") == "a < b & c"
    assert qti_says(item, "3") == (0, flat("x < y & not <b>y</b>."))
