"use strict";
/** A value of the translated program with plain objects instead of dictionaries, and null of nothing. */
const plain = (value) => {
  if (value === undefined) return null;
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof $.Dict) return Object.fromEntries(value.pairs().map(([key, its]) => [key, plain(its)]));
  return value;
};
/** A plain object as a dictionary of the translated program. */
const dict = (entries) => new $.Dict(Object.entries(entries));
