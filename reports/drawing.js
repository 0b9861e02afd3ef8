"use strict";
// What pictures take from Python's libraries: text in markup, text in names.
const drawing = (() => {
  const signs = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };
  // controls, marks that turn the direction of text, and what XML does not allow
  const unsafe = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]|\p{Cs}/gu;
  return {
    safe: (text) => text.replace(unsafe, "").replace(/[&<>"']/g, (sign) => signs[sign]),
    name: (text) => text.replace(/[^A-Za-z0-9_-]/g, "-"),
  };
})();
