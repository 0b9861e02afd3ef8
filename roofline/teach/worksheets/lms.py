"""Sheets as question banks of learning-management systems: Moodle XML, and a QTI 2.1 package.

Every problem is a question that checks its number within the tolerance and answers each usual mistake with its hint; the worked
solution is the general feedback (Moodle), or comes with the right answer (QTI). Sources: Moodle XML format,
https://docs.moodle.org/en/Moodle_XML_format, and Moodle's question/type/numerical; IMS QTI 2.1 Assessment Test, Section and
Item Information Model (2012), https://www.imsglobal.org/question/, with IMS Content Packaging 1.1.4.
"""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from roofline.teach.worksheets.page import text_html
from roofline.teach.worksheets.parsing import BASE, EXAMPLES, UNITS
from roofline.teach.worksheets.problem import Numbered, Problem, Worked
from roofline.teach.worksheets.sheet import Sheet

_HINT_WITHIN = 0.005
"""How near an answer has to be to a usual mistake at least, as a share of it."""
_EXACT = 1e-9
_OTHER = "Not yet, and none of the usual mistakes. Check the unit, then each factor."
_MORE_UNITS = {"parameters": ("B", "M"), "tokens": ("k",), "joules": ("Wh", "kWh", "MWh"), "s": ("min", "h")}
"""Units besides those that end with the base unit."""


def moodle(sheets: Sequence[Sheet]) -> str:
    """Return sheets as a question bank in Moodle XML.

    Each template is a category, with a question for each sheet: a quiz draws random questions of a category. Numbers are read
    with or without a unit; a share is in percent.
    """
    quiz = ET.Element("quiz")
    for entries in _by_template(sheets):
        made, first = entries[0]
        category = ET.SubElement(quiz, "question", type="category")
        path = ["$course$", "top", "roofline", made.title, first.problem.title]
        _text(category, "category", "/".join(part.replace("/", "//") for part in path))
        for sheet, entry in entries:
            _moodle_question(quiz, sheet, entry)
    return _document(quiz)


def _by_template(sheets: Sequence[Sheet]) -> Iterator[list[tuple[Sheet, Numbered]]]:
    """The problems of sheets, by template; sheets of a topic have the same ones in the same order."""
    grouped: dict[str, list[tuple[Sheet, Numbered]]] = {}
    for sheet in sheets:
        for entry in sheet.problems:
            grouped.setdefault(entry.template, []).append((sheet, entry))
    yield from grouped.values()


def _moodle_question(quiz: ET.Element, sheet: Sheet, entry: Numbered) -> None:
    problem = entry.problem
    answer = problem.answer
    question = ET.SubElement(quiz, "question", type="multichoice" if answer.choices else "numerical")
    _text(question, "name", f"{problem.title}, seed {sheet.seed}")
    _html(question, "questiontext", text_html(problem.text) + _how(problem))
    _html(question, "generalfeedback", _solution(problem))
    _plain(question, "defaultgrade", "1")
    _plain(question, "penalty", "0.3333333")
    _plain(question, "hidden", "0")
    _plain(question, "idnumber", f"{entry.template}-{sheet.seed}")
    if answer.choices:
        for name, value in {"single": "true", "shuffleanswers": "false", "answernumbering": "abc"}.items():
            _plain(question, name, value)
        hints = {int(mistake.value): mistake.hint for mistake in problem.mistakes}
        for place, choice in enumerate(answer.choices):
            right = place == int(answer.value)
            _moodle_answer(
                question, text_html(choice), _right(problem) if right else hints.get(place, ""), right=right, form="html"
            )
        return
    scale = _scale(problem)
    _moodle_answer(question, repr(answer.value * scale), _right(problem), right=True, tolerance=_within(problem, scale))
    for mistake in problem.mistakes:
        near = max(answer.tolerance, _HINT_WITHIN) if answer.tolerance else _EXACT
        size = mistake.value * scale
        _moodle_answer(question, repr(size), mistake.hint, right=False, tolerance=near * abs(size))
    _moodle_answer(question, "*", _OTHER, right=False, tolerance=0.0)
    units = _units(answer.kind)
    if units:
        listed = ET.SubElement(question, "units")
        for name, size in units.items():
            unit = ET.SubElement(listed, "unit")
            _plain(unit, "multiplier", repr(1 / size))  # units in a base unit
            _plain(unit, "unit_name", name)
    for name, value in {
        "unitgradingtype": "0",
        "unitpenalty": "0",
        "showunits": "0" if units else "3",
        "unitsleft": "0",
    }.items():
        _plain(question, name, value)


def _moodle_answer(
    question: ET.Element,
    text: str,
    feedback: str,
    *,
    right: bool,
    tolerance: float | None = None,
    form: str = "moodle_auto_format",
) -> None:
    element = ET.SubElement(question, "answer", fraction="100" if right else "0", format=form)
    _plain(element, "text", text)
    _html(element, "feedback", text_html(feedback) if feedback else "")
    if tolerance is not None:
        _plain(element, "tolerance", repr(tolerance))


def _scale(problem: Problem) -> float:
    """What a value is multiplied by in a question: shares are in percent there."""
    return 100.0 if problem.answer.kind == "share" else 1.0


def _within(problem: Problem, scale: float) -> float:
    return max(problem.answer.tolerance, _EXACT) * abs(problem.answer.value * scale)


def _units(kind: str) -> dict[str, float]:
    """The units of a kind of answer that a bank lists, each in base units, the base unit first; none of a plain number."""
    if kind == "share":
        return {"%": 1.0}
    base = BASE[kind]
    if not base:
        return {}
    every = UNITS[kind]
    names = [name for name in every if name.endswith(base) and name != base]
    return {base: 1.0} | {name: every[name] for name in (*names, *_MORE_UNITS.get(kind, ()))}


def _how(problem: Problem, *, units: bool = True) -> str:
    """What is to be written, as HTML; nothing for a choice."""
    kind = problem.answer.kind
    if problem.answer.choices:
        return ""
    base = "percent (%)" if kind == "share" else BASE[kind]
    if not base:
        return f"<p>Write a plain number; {problem.tolerance}.</p>"
    if not units or kind == "share":
        return f"<p>Write a number in {escape(base)}; {problem.tolerance}.</p>"
    examples = escape(EXAMPLES[kind])
    return f"<p>Write a number with its unit, such as {examples}, or alone, in {escape(base)}; {problem.tolerance}.</p>"


def _right(problem: Problem) -> str:
    return f"Right: {problem.right_answer}."


def _solution(problem: Problem) -> str:
    """The worked solution as HTML."""
    answer = f"<p><strong>Answer: {escape(problem.right_answer)}</strong></p>"
    source = f"<p>Source: {escape(problem.source)}.</p>" if problem.source else ""
    return "".join(map(_step, problem.solution)) + answer + source


def _step(step: str | Worked) -> str:
    if isinstance(step, str):
        return text_html(step)
    from roofline.formulas.mathml import spaced

    formula = step.make()
    value = "∞" if formula.value is None else spaced(formula.value)
    unit = "" if formula.unit == "1" else f" {escape(formula.unit)}"
    return f"{text_html(step.lead)}<p>{formula.mathml} = {formula.substituted_mathml} = {escape(value)}{unit}</p>"


def _text(parent: ET.Element, name: str, text: str) -> None:
    _plain(ET.SubElement(parent, name), "text", text)


def _html(parent: ET.Element, name: str, html: str) -> None:
    _plain(ET.SubElement(parent, name, format="html"), "text", html)


def _plain(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, name).text = text


def _document(root: ET.Element) -> str:
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


_QTI = "http://www.imsglobal.org/xsd/imsqti_v2p1"
_PACKAGE = "http://www.imsglobal.org/xsd/imscp_v1p1"
_MATHML = "http://www.w3.org/1998/Math/MathML"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
_SCHEMAS = {
    _QTI: "http://www.imsglobal.org/xsd/qti/qtiv2p1/imsqti_v2p1.xsd",
    _PACKAGE: "http://www.imsglobal.org/xsd/qti/qtiv2p1/qtiv2p1_imscpv1p2_v1p0.xsd",
}
_EPOCH = (1980, 1, 1, 0, 0, 0)


def qti(sheets: Sequence[Sheet]) -> bytes:
    """Return sheets as a QTI 2.1 package, a zip: an item for each problem, a test for each sheet, and the manifest.

    The same sheets give the same bytes. Numbers are in base units, a share in percent: QTI knows no units.
    """
    content = io.BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as package:
        manifest = _root("manifest", _PACKAGE, identifier="roofline-worksheets")
        metadata = ET.SubElement(manifest, "metadata")
        _plain(metadata, "schema", "QTIv2.1 Package")
        _plain(metadata, "schemaversion", "1.0.0")
        ET.SubElement(manifest, "organizations")
        resources = ET.SubElement(manifest, "resources")
        for sheet in sheets:
            items = [(f"{entry.template}-{sheet.seed}", entry) for entry in sheet.problems]
            name = f"test-{sheet.topic}-{sheet.seed}"
            test = _resource(resources, name, "imsqti_test_xmlv2p1")
            for identifier, entry in items:
                ET.SubElement(test, "dependency", identifierref=identifier)
                _add(package, f"{identifier}.xml", _item(identifier, entry))
            for identifier, _ in items:
                _resource(resources, identifier, "imsqti_item_xmlv2p1")
            _add(package, f"{name}.xml", _test(name, sheet, [identifier for identifier, _ in items]))
        _add(package, "imsmanifest.xml", manifest)
    return content.getvalue()


def _root(name: str, namespace: str, **attributes: str) -> ET.Element:
    """The root of a document, with its namespace and its schema."""
    attributes["xmlns"] = namespace
    attributes["xmlns:xsi"] = _INSTANCE
    attributes["xsi:schemaLocation"] = f"{namespace} {_SCHEMAS[namespace]}"
    return ET.Element(name, attributes)


def _add(package: ZipFile, name: str, root: ET.Element) -> None:
    entry = ZipInfo(name, _EPOCH)
    entry.compress_type = ZIP_DEFLATED
    # NB: no indentation: spaces would become part of sentences
    package.writestr(entry, f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n')


def _resource(resources: ET.Element, identifier: str, kind: str) -> ET.Element:
    resource = ET.SubElement(resources, "resource", identifier=identifier, type=kind, href=f"{identifier}.xml")
    ET.SubElement(resource, "file", href=f"{identifier}.xml")
    return resource


def _test(name: str, sheet: Sheet, items: Iterable[str]) -> ET.Element:
    test = _root("assessmentTest", _QTI, identifier=name, title=f"{sheet.title}, seed {sheet.seed}")
    part = ET.SubElement(test, "testPart", identifier="part", navigationMode="nonlinear", submissionMode="individual")
    ET.SubElement(part, "itemSessionControl", maxAttempts="0", showFeedback="true")
    section = ET.SubElement(part, "assessmentSection", identifier="problems", title=sheet.title, visible="true")
    for identifier in items:
        ET.SubElement(section, "assessmentItemRef", identifier=identifier, href=f"{identifier}.xml")
    return test


def _item(identifier: str, entry: Numbered) -> ET.Element:
    problem = entry.problem
    answer, scale = problem.answer, _scale(problem)
    item = _root("assessmentItem", _QTI, identifier=identifier, title=problem.title, adaptive="false", timeDependent="false")
    kind = "identifier" if answer.choices else "float"
    right = _choice(answer.value) if answer.choices else repr(float(answer.value * scale))
    declaration = ET.SubElement(item, "responseDeclaration", identifier="RESPONSE", cardinality="single", baseType=kind)
    _plain(ET.SubElement(declaration, "correctResponse"), "value", right)
    score = ET.SubElement(item, "outcomeDeclaration", identifier="SCORE", cardinality="single", baseType="float")
    _plain(ET.SubElement(score, "defaultValue"), "value", "0")
    ET.SubElement(item, "outcomeDeclaration", identifier="FEEDBACK", cardinality="single", baseType="identifier")

    body = ET.SubElement(item, "itemBody")
    body.extend(_flow(text_html(problem.text) + _how(problem, units=False)))
    if answer.choices:
        interaction = ET.SubElement(body, "choiceInteraction", responseIdentifier="RESPONSE", shuffle="false", maxChoices="1")
        for place, choice in enumerate(answer.choices):
            ET.SubElement(interaction, "simpleChoice", identifier=_choice(place)).text = choice
    else:
        line = ET.SubElement(body, "p")
        line.text = "Answer: "
        field = ET.SubElement(line, "textEntryInteraction", responseIdentifier="RESPONSE", expectedLength="20")
        field.tail = f" {'%' if answer.kind == 'share' else BASE[answer.kind]}".rstrip()

    condition = ET.SubElement(ET.SubElement(item, "responseProcessing"), "responseCondition")
    messages = {"right": f"{text_html(_right(problem))}{_solution(problem)}"}
    _branch(condition, "responseIf", kind, right, _within(problem, scale), "right")
    for number, mistake in enumerate(problem.mistakes, 1):
        name = f"mistake-{number}"
        size = mistake.value * scale
        near = max(answer.tolerance, _HINT_WITHIN) if answer.tolerance else _EXACT
        value = _choice(mistake.value) if answer.choices else repr(float(size))
        _branch(condition, "responseElseIf", kind, value, near * abs(size), name)
        messages[name] = text_html(mistake.hint)
    messages["other"] = text_html(_OTHER)
    _outcome(ET.SubElement(condition, "responseElse"), "FEEDBACK", "identifier", "other")
    for name, html in messages.items():
        feedback = ET.SubElement(item, "modalFeedback", outcomeIdentifier="FEEDBACK", identifier=name, showHide="show")
        feedback.extend(_flow(html))
    return item


def _choice(place: float) -> str:
    return f"choice-{int(place) + 1}"


def _branch(condition: ET.Element, name: str, kind: str, value: str, within: float, feedback: str) -> None:
    """A branch of the response processing: the answer is near a value (or is a choice), and the feedback is chosen."""
    branch = ET.SubElement(condition, name)
    if kind == "float":
        test = ET.SubElement(branch, "equal", toleranceMode="absolute", tolerance=f"{within!r} {within!r}")
    else:
        test = ET.SubElement(branch, "match")
    ET.SubElement(test, "variable", identifier="RESPONSE")
    ET.SubElement(test, "baseValue", baseType=kind).text = value
    if feedback == "right":
        _outcome(branch, "SCORE", "float", "1")
    _outcome(branch, "FEEDBACK", "identifier", feedback)


def _outcome(branch: ET.Element, name: str, kind: str, value: str) -> None:
    ET.SubElement(ET.SubElement(branch, "setOutcomeValue", identifier=name), "baseValue", baseType=kind).text = value


def _flow(html: str) -> list[ET.Element]:
    """Blocks of HTML as elements of QTI: the same names; formulas in the namespace of MathML."""
    blocks = list(ET.fromstring(f"<div>{html}</div>"))  # noqa: S314 - written by `text_html` and `_step`
    for block in blocks:
        for math in block.iter("math"):
            math.set("xmlns", _MATHML)
    return blocks
