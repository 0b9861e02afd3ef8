// A view as elements. The templates parts.html.j2 and table.html.j2 make the same elements: change both.
// Where a second view is pinned, its texts stand beside those that differ.

/** The attribute with the unrounded number behind a text; none for words. */
function valueOf(cell) {
  return cell.value === null || cell.value === undefined ? null : String(cell.value);
}

/** A text; addresses of sources as links, and of no other kind. */
function linked(text) {
  const link = (part) => (part.startsWith("https://") ? h("a", { href: part, rel: "noreferrer" }, part) : part);
  return text.startsWith("https://") ? text.split(", ").flatMap((part, index) => [index ? ", " : "", link(part)]) : [text];
}

/** The text of a cell, and beside it that of the pinned one. */
function cellContent(cell, pinned) {
  if (!pinned || pinned.text === cell.text) return linked(cell.text);
  return [...linked(cell.text), h("span", { class: "pinned", "data-pinned-value": valueOf(pinned) }, h("span", { class: "unseen" }, " pinned: "), pinned.text)];
}

function tileElement(tile, pinnedTiles) {
  const twin = pinnedTiles.find(({ label }) => label === tile.label);
  return h(
    "div",
    { class: "tile" },
    h("dt", null, tile.meaning ? [`${tile.label} `, h("span", { class: "meaning" }, tile.meaning)] : tile.label),
    h(
      "dd",
      { class: "value", "data-cell": `tile/${tile.label}`, "data-value": valueOf(tile.cell) },
      cellContent(tile.cell, twin && twin.cell),
    ),
    tile.gauge ? h("dd", { class: "glyph" }, gaugeElement(tile.gauge)) : null,
    !tile.gauge && tile.parts && tile.parts.length ? h("dd", { class: "glyph" }, stackElement(tile.parts)) : null,
    tile.note ? h("dd", { class: "note" }, tile.note) : null,
  );
}

/** The number of a tile in the line that stays in sight when the tiles are out of it. */
function briefElement({ label, cell }) {
  return h("p", null, h("span", null, label), " ", h("b", null, cell.text));
}

/** On an axis from zero: the interval, the estimate, and a tick at the bound. */
function gaugeElement({ role, low, high, value, bound }) {
  return s(
    "svg",
    { class: `gauge ${role}`, "aria-hidden": "true", width: "100%", height: "14" },
    s("rect", { class: "rail", x: "0", y: "6", width: "100%", height: "2" }),
    s("rect", { class: "interval", x: `${low * 100}%`, y: "4", width: `${(high - low) * 100}%`, height: "6", rx: "3" }),
    s("rect", { class: "bound", x: `${bound * 100}%`, y: "1", width: "2", height: "12" }),
    s("circle", { class: "estimate", cx: `${value * 100}%`, cy: "7", r: "4" }),
  );
}

function stackElement(parts) {
  return s(
    "svg",
    { class: "stack", "aria-hidden": "true", width: "100%", height: "14" },
    s("rect", { class: "rail", x: "0", y: "3", width: "100%", height: "8" }),
    parts.map(({ role, start, length }) =>
      s("rect", { class: `part ${role}`, x: `${start * 100}%`, y: "3", width: `${length * 100}%`, height: "8" }),
    ),
  );
}

function commandElement(command) {
  return h(
    "div",
    { class: "command" },
    h("span", { class: "label" }, command.label),
    h("pre", null, h("code", null, command.text.split(" ").flatMap((word, index) => [index ? " " : "", h("span", null, word)]))),
    h("button", { type: "button", class: "copy live", "data-keep": "", "aria-label": `Copy: ${command.label}` }, "Copy"),
  );
}

/** The pinned rows by their first text; of several with the same one, in their order. */
function pinnedRows(table) {
  const rows = new Map();
  for (const row of table ? table.rows : []) {
    const name = row.length ? row[0].text : "";
    rows.set(name, [...(rows.get(name) || []), row]);
  }
  return rows;
}

function tableElement(table, pinnedTables, heading = "") {
  const pinned = pinnedTables.get(table.key);
  const twins = pinnedRows(pinned);
  const columns = table.columns.map(({ name }) => (pinned ? pinned.columns.findIndex((other) => other.name === name) : -1));
  const rows = table.rows.map((row) => {
    const twin = row.length ? (twins.get(row[0].text) || []).shift() : null;
    const cells = row.map((cell, column) => {
      const { number } = table.columns[column];
      const isHead = column === 0 && !number;
      const attributes = {
        scope: isHead ? "row" : null,
        class: number ? "number" : null,
        "data-value": valueOf(cell),
      };
      return h(isHead ? "th" : "td", attributes, cellContent(cell, twin && twin[columns[column]]));
    });
    return h("tr", null, cells);
  });
  const heads = table.columns.map(({ name, number }) => h("th", { scope: "col", class: number ? "number" : null }, name));
  const named = { "aria-labelledby": `title-${table.key}` };
  return h(
    "div",
    { class: "table", id: `table-${table.key}` },
    h("h3", { id: `title-${table.key}`, class: table.title === heading ? "unseen" : null }, table.title),
    table.note ? h("p", { class: "note" }, table.note) : null,
    h(
      "div",
      { class: "scroll", role: "group", tabindex: "0", ...named },
      h("table", named, h("thead", null, h("tr", null, heads)), h("tbody", null, rows)),
    ),
  );
}

function captionElements(figure, heading) {
  return [
    figure.title !== heading ? h("span", { class: "title" }, figure.title) : null,
    figure.note ? h("span", { class: "note" }, figure.note) : null,
  ].filter(Boolean);
}

/** Show what is read with a figure that is there already; whether it is. Its tables take longer, and are rendered with the section. */
function renderCaption({ title, figure }) {
  const caption = document.querySelector(`#figure-${CSS.escape(figure.key)} > figcaption`);
  if (caption) patchChildren(caption, captionElements(figure, title));
  return Boolean(caption);
}

function figureElements(figure, heading, pinnedTables) {
  return [
    h(
      "figure",
      { id: `figure-${figure.key}` },
      h("figcaption", null, captionElements(figure, heading)),
      h("div", { class: "chart", "data-keep": "", "data-chart": figure.key }),
    ),
    figure.table
      ? h(
          "details",
          { class: "numbers", id: `numbers-${figure.key}` },
          h("summary", null, `Numbers: ${figure.title}`),
          tableElement(figure.table, pinnedTables),
        )
      : null,
  ];
}

function sectionElement(section, pinnedTables) {
  const inside = [
    section.note ? h("p", { class: "note" }, section.note) : null,
    section.figure ? figureElements(section.figure, section.title, pinnedTables) : null,
    section.tables.map((table) => tableElement(table, pinnedTables, section.title)),
  ].flat(2);
  const attributes = {
    class: `section${section.half ? " half" : ""}${section.folded ? " folded" : ""}`,
    id: `section-${section.key}`,
  };
  return h("section", attributes, section.folded ? fold(section.key, section.title, inside) : [h("h2", null, section.title), ...inside]);
}

/** What a reader opens by its heading. */
function fold(key, title, inside) {
  return h("details", { class: "numbers fold", id: `numbers-${key}` }, h("summary", null, h("h2", null, title)), inside);
}

/** Every table of a view by its key. */
function tablesOf(view) {
  const tables = view.sections.flatMap(({ figure, tables: own }) => [...(figure && figure.table ? [figure.table] : []), ...own]);
  return new Map([...tables, view.assumptions].map((table) => [table.key, table]));
}

/** Show what is seen first: title, verdict, tiles, commands. `pinned` is the head of another view, or null. */
function renderHead(head, pinned) {
  const answer = [
    h("h1", null, head.title),
    h("p", { class: "subtitle" }, head.subtitle),
    head.verdict
      ? h("p", { class: "verdict", "aria-live": "polite" }, head.verdict)
      : h("div", { class: "sentences", "aria-live": "polite" }, head.answer.map((sentence) => h("p", null, sentence))),
  ];
  if (document.title !== head.title) document.title = head.title;
  document.getElementById("answer").dataset.fits = head.fits ? "yes" : "no";
  patchChildren(document.getElementById("answer"), answer);
  patchChildren(document.getElementById("tiles"), head.tiles.map((tile) => tileElement(tile, pinned ? pinned.tiles : [])));
  patchChildren(document.getElementById("brief"), head.tiles.map(briefElement));
}

/** Show the sections that are there already, in their order; `keys` names all. */
function renderOrder(keys) {
  const place = document.getElementById("sections");
  const wanted = keys.map((key) => document.getElementById(`section-${key}`)).filter((section) => section && section.parentElement === place);
  for (const section of [...place.children]) if (!wanted.includes(section)) section.remove();
  wanted.forEach((section, index) => {
    if (place.children[index] !== section) place.insertBefore(section, place.children[index]);
  });
}

/** Show a section in its place among `keys`. */
function renderSection(section, keys, pinnedTables) {
  const fresh = sectionElement(section, pinnedTables);
  const old = document.getElementById(fresh.id);
  if (old) return patch(old, fresh);
  const place = document.getElementById("sections");
  const next = keys.slice(keys.indexOf(section.key) + 1).map((key) => document.getElementById(`section-${key}`)).find(Boolean);
  return place.insertBefore(fresh, next ?? null);
}

/** Show what stands at the end of a page and is folded at first, and the commands. */
function renderRest(head, pinnedTables) {
  const place = (id) => document.getElementById(id);
  const words = head.verdict && head.answer.length ? [fold("words", "In words", head.answer.map((sentence) => h("p", null, sentence)))] : [];
  patchChildren(place("words"), words);
  patchChildren(place("commands"), head.commands.map(commandElement));
  patchChildren(place("assumptions"), [tableElement(head.assumptions, pinnedTables)]);
  patchChildren(place("not-modelled"), head.not_modelled.map((entry) => h("li", null, entry)));
}
