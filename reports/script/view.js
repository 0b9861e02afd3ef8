// A view as elements. The templates parts.html.j2 and table.html.j2 make the same elements: change both.
// Where a second view is pinned, its texts stand beside those that differ.

/** The attribute with the unrounded number behind a text; none for words. */
function valueOf(cell) {
  return cell.value === null || cell.value === undefined ? null : String(cell.value);
}

/** The text of a cell, and beside it that of the pinned one. */
function cellContent(cell, pinned) {
  if (!pinned || pinned.text === cell.text) return [cell.text];
  return [cell.text, h("span", { class: "pinned", "data-pinned-value": valueOf(pinned) }, h("span", { class: "unseen" }, " pinned: "), pinned.text)];
}

function tileElement(tile, pinnedTiles) {
  const twin = pinnedTiles.find(({ label }) => label === tile.label);
  return h(
    "div",
    { class: "tile" },
    h("dt", null, tile.label),
    h(
      "dd",
      { class: "value", "data-cell": `tile/${tile.label}`, "data-value": valueOf(tile.cell) },
      cellContent(tile.cell, twin && twin.cell),
    ),
    tile.note ? h("dd", { class: "note" }, tile.note) : null,
  );
}

function commandElement(command) {
  return h(
    "div",
    { class: "command" },
    h("span", { class: "label" }, command.label),
    h("pre", null, h("code", null, command.text)),
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

function tableElement(table, pinnedTables) {
  const pinned = pinnedTables.get(table.key);
  const twins = pinnedRows(pinned);
  const columns = table.columns.map(({ name }) => (pinned ? pinned.columns.findIndex((other) => other.name === name) : -1));
  const rows = table.rows.map((row, index) => {
    const twin = row.length ? (twins.get(row[0].text) || []).shift() : null;
    const cells = row.map((cell, column) => {
      const { number } = table.columns[column];
      const isHead = column === 0 && !number;
      const attributes = {
        scope: isHead ? "row" : null,
        class: number ? "number" : null,
        "data-cell": `${table.key}/${index}/${column}`,
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
    h("h3", { id: `title-${table.key}` }, table.title),
    table.note ? h("p", { class: "note" }, table.note) : null,
    h(
      "div",
      { class: "scroll", role: "group", tabindex: "0", ...named },
      h("table", named, h("thead", null, h("tr", null, heads)), h("tbody", null, rows)),
    ),
  );
}

function figureElements(figure, heading, pinnedTables) {
  const caption = [
    figure.title !== heading ? h("span", { class: "title" }, figure.title) : null,
    figure.note ? h("span", { class: "note" }, figure.note) : null,
  ];
  return [
    h(
      "figure",
      { id: `figure-${figure.key}` },
      h("figcaption", null, caption),
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
  return h(
    "section",
    { class: "section", id: `section-${section.key}` },
    h("h2", null, section.title),
    section.note ? h("p", { class: "note" }, section.note) : null,
    section.figure ? figureElements(section.figure, section.title, pinnedTables) : null,
    section.tables.map((table) => tableElement(table, pinnedTables)),
  );
}

/** Every table of a view by its key. */
function tablesOf(view) {
  const tables = view.sections.flatMap(({ figure, tables: own }) => [...(figure && figure.table ? [figure.table] : []), ...own]);
  return new Map([...tables, view.assumptions].map((table) => [table.key, table]));
}

/** Show a view in the page, beside a pinned one or null. */
function render(view, pinned) {
  const place = (id) => document.getElementById(id);
  const pinnedTables = pinned ? tablesOf(pinned) : new Map();
  const answer = [
    h("h1", null, view.title),
    h("p", { class: "subtitle" }, view.subtitle),
    h("div", { class: "sentences", "aria-live": "polite" }, view.answer.map((sentence) => h("p", null, sentence))),
  ];
  document.title = view.title;
  place("answer").dataset.fits = view.fits ? "yes" : "no";
  patchChildren(place("answer"), answer);
  patchChildren(place("tiles"), view.tiles.map((tile) => tileElement(tile, pinned ? pinned.tiles : [])));
  patchChildren(place("commands"), view.commands.map(commandElement));
  patchChildren(place("sections"), view.sections.map((section) => sectionElement(section, pinnedTables)));
  patchChildren(place("assumptions"), [tableElement(view.assumptions, pinnedTables)]);
  patchChildren(place("not-modelled"), view.not_modelled.map((entry) => h("li", null, entry)));
}
