// Elements made from data. Text is always text: nothing here reads markup.

/** An element with attributes (left out where null) and children (strings are text). */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== ""));
  return element;
}

/** The same for a picture. */
function s(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}

/** Make `old` look like `fresh`, and keep every element that can stay: focus, scroll and plots survive. */
function patch(old, fresh) {
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value && !isTheReaders(old, name)) old.setAttribute(name, value);
  }
  if (old.hasAttribute("data-keep")) return; // what is inside, and attributes that came with it, such as the height of a plot
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !isTheReaders(old, name)) old.removeAttribute(name);
  }
  patchChildren(old, [...fresh.childNodes]);
}

/** Whether details are open is up to who reads them. */
function isTheReaders(element, attribute) {
  return attribute === "open" && element.localName === "details";
}

/** Make the children of an element those given. Elements with an id are found again by it wherever they stand. */
function patchChildren(parent, wanted) {
  for (const node of [...parent.childNodes]) {
    if (node.nodeType !== Node.ELEMENT_NODE && (node.nodeType !== Node.TEXT_NODE || !node.data.trim())) node.remove();
  }
  const byId = new Map([...parent.children].filter((child) => child.id).map((child) => [child.id, child]));
  let next = parent.firstChild;
  for (const fresh of wanted) {
    const twin = fresh.id ? byId.get(fresh.id) : next;
    const fits = twin && twin.nodeName === fresh.nodeName && (twin.id || "") === (fresh.id || "");
    if (!fits) {
      parent.insertBefore(fresh, next);
      continue;
    }
    if (twin !== next) parent.insertBefore(twin, next);
    else next = next.nextSibling;
    if (fresh.nodeType === Node.TEXT_NODE) twin.data = twin.data === fresh.data ? twin.data : fresh.data;
    else patch(twin, fresh);
  }
  while (next) {
    const last = next;
    next = next.nextSibling;
    last.remove();
  }
}
