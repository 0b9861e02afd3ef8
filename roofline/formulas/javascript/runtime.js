"use strict";
// What Python's arithmetic, containers and texts are in JavaScript, for code translated from Python. Numbers are doubles
// (whole ones exact to 2^53), lists and tuples arrays, None null, dicts and sets the classes here: they look values up by
// equality, as Python does, not by identity.
const $ = (() => {
  const SKIP = Symbol("no arguments");
  const classes = {}, functions = {}, constants = {};

  // Where an object keeps its key for `recall`: out of sight of all that copies or compares fields.
  class Keyed {
    #key;
    static keyOf = (value) => (#key in value ? value.#key : undefined);
    static keep = (value, key) => {
      if (#key in value) value.#key = key;
    };
  }
  class Obj extends Keyed {
    constructor(...given) {
      super();
      if (given[0] !== SKIP) this.__init__(...given);
    }
    __init__() {}
  }
  class Data extends Keyed {}
  class Exception extends Error {
    constructor(...given) {
      super();
      if (given[0] !== SKIP) this.__init__(...given);
    }
    __init__(message = "") {
      this.message = str(message);
    }
    __str__() {
      return this.message;
    }
  }
  const fail = (message) => {
    throw new Error(message);
  };

  // Also of a class whose base has none.
  const hasFields = (value) => value.constructor !== undefined && value.constructor.$fields !== undefined;
  // JavaScript orders by texts or numbers, and would make some of a container.
  const unordered = (value) => fail(`${repr(value)} has no order`);

  // A key that two equal values share: primitives themselves, of everything else a text.
  const hash = (value) => {
    if (value === null || value === undefined) return "\u0000none";
    const kind = typeof value;
    if (kind === "string" || kind === "number") return value;
    if (kind === "boolean") return Number(value);
    return `\u0000${Array.isArray(value) ? `[${value.map(brief).join()}]` : part(value)}`;
  };
  // Texts of a list with their lengths, which is quicker than quoting them.
  const brief = (value) => (typeof value === "string" ? `${value.length}:${value}` : part(value));
  let named = 0;
  const names = new WeakMap();
  const part = (value) => {
    if (value === null || value === undefined) return "None";
    if (typeof value === "string") return JSON.stringify(value);
    if (typeof value === "number" || typeof value === "boolean") return String(Number(value));
    if (Array.isArray(value)) return `[${value.map(part).join()}]`;
    if (hasFields(value)) {
      const { name, $fields, $compared = $fields } = value.constructor;
      return `${name}(${$compared.map((f) => part(value[f])).join()})`;
    }
    if (value instanceof Set_) return `{${[...value].map(part).sort().join()}}`;
    if (value instanceof Dict) return `{${[...value.data.values()].map(([k, v]) => `${part(k)}:${part(v)}`).sort().join()}}`;
    return identity(value);
  };
  const identity = (value) => {
    if (!names.has(value)) names.set(value, `#${named++}`);
    return names.get(value);
  };

  class Dict {
    constructor(pairs = []) {
      this.data = new Map();
      for (const [key, value] of pairs) this.set(key, value);
    }
    set(key, value) {
      const at = hash(key);
      const had = this.data.get(at);
      this.data.set(at, [had ? had[0] : key, value]);
      return this;
    }
    has(key) {
      return this.data.has(hash(key));
    }
    get(key, fallback = null) {
      const found = this.data.get(hash(key));
      return found ? found[1] : fallback;
    }
    at(key) {
      const found = this.data.get(hash(key));
      return found ? found[1] : fail(`no key ${repr(key)}`);
    }
    delete(key) {
      this.data.delete(hash(key));
    }
    get size() {
      return this.data.size;
    }
    *[Symbol.iterator]() {
      for (const [key] of this.data.values()) yield key;
    }
    [Symbol.toPrimitive]() {
      return unordered(this);
    }
    pairs() {
      return [...this.data.values()];
    }
    copy() {
      const made = new Dict();
      made.data = new Map(this.data);
      return made;
    }
  }
  class Set_ {
    constructor(values = []) {
      this.data = new Map();
      for (const value of values) this.add(value);
    }
    add(value) {
      const at = hash(value);
      if (!this.data.has(at)) this.data.set(at, value);
    }
    has(value) {
      return this.data.has(hash(value));
    }
    delete(value) {
      this.data.delete(hash(value));
    }
    get size() {
      return this.data.size;
    }
    [Symbol.iterator]() {
      return this.data.values();
    }
    [Symbol.toPrimitive]() {
      return unordered(this);
    }
  }

  const iter = (value) => (value !== null && value !== undefined && value[Symbol.iterator] ? value : fail(`${repr(value)} has no items`));
  const list = (value = []) => (Array.isArray(value) ? value.slice() : [...iter(value)]);
  const len = (value) => (value.size === undefined ? value.length : value.size);
  const truthy = (value) => {
    if (value === null || value === undefined || value === false || value === 0 || value === "") return false;
    if (typeof value !== "object") return true;
    if (Array.isArray(value)) return value.length > 0;
    if (value instanceof Dict || value instanceof Set_) return value.size > 0;
    return true;
  };
  const eq = (a, b) => {
    if (a === b) return true;
    if (a === null || b === null || a === undefined || b === undefined) return (a ?? null) === (b ?? null);
    if (typeof a !== "object" || typeof b !== "object") return typeof a !== "string" && typeof b !== "string" && Number(a) === Number(b);
    return hash(a) === hash(b);
  };
  const compare = (a, b) => {
    if (Array.isArray(a) && Array.isArray(b)) {
      for (let at = 0; at < Math.min(a.length, b.length); at++) {
        const found = compare(a[at], b[at]);
        if (found) return found;
      }
      return a.length - b.length;
    }
    return a < b ? -1 : a > b ? 1 : 0;
  };
  const contains = (values, value) => {
    if (typeof values === "string") return values.includes(value);
    if (values instanceof Dict || values instanceof Set_) return values.has(value);
    if (Array.isArray(values)) {
      for (let index = 0; index < values.length; index++) if (eq(values[index], value)) return true;
      return false;
    }
    return list(values).some((item) => eq(item, value));
  };

  // Arithmetic. Numbers first: the rest is rare.
  const add = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a + b;
    if (typeof a === "string" || typeof b === "string") return a + b;
    if (Array.isArray(a) && Array.isArray(b)) return [...a, ...b];
    if (a && a.__add__) return a.__add__(b);
    if (b && b.__radd__) return b.__radd__(a);
    return Number(a) + Number(b);
  };
  const sub = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (a instanceof Set_ || Array.isArray(a)) return new Set_(list(a).filter((value) => !contains(b, value)));
    return Number(a) - Number(b);
  };
  const mul = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a * b;
    if (a && a.__mul__) return a.__mul__(b);
    if (b && b.__rmul__) return b.__rmul__(a);
    const [values, times] = typeof a === "number" || typeof a === "boolean" ? [b, a] : [a, b];
    if (typeof values === "string") return values.repeat(Math.max(Number(times), 0));
    if (Array.isArray(values)) return Array.from({ length: Number(times) }, () => values).flat(1);
    return Number(a) * Number(b);
  };
  const div = (a, b) => (Number(b) === 0 ? fail("division by zero") : Number(a) / Number(b));
  const mod = (a, b) => {
    const rest = a % b;
    return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
  };
  const floordiv = (a, b) => {
    if (Number(b) === 0) fail("division by zero");
    const whole = (a - mod(a, b)) / b; // the remainder is exact, so that this is a whole number or its neighbour's rounding
    return Math.round(whole) + 0; // a zero of Python's whole numbers has no sign
  };
  const pow = (a, b) => Math.pow(Number(a), Number(b));
  const bitor = (a, b) => {
    if (a instanceof Dict) return ior(a.copy(), b);
    if (a instanceof Set_ || Array.isArray(a)) return new Set_([...a, ...b]);
    return typeof a === "boolean" ? a || b : a | b;
  };
  const ior = (a, b) => {
    if (a instanceof Dict) for (const [key, value] of b instanceof Dict ? [...b.data.values()] : iter(b)) a.set(key, value);
    else if (a instanceof Set_) for (const value of iter(b)) a.add(value);
    else return bitor(a, b);
    return a;
  };
  const iadd = (a, b) => {
    if (!Array.isArray(a)) return add(a, b);
    a.push(...b);
    return a;
  };
  const bitand = (a, b) => {
    if (a instanceof Set_ || Array.isArray(a)) return new Set_(list(a).filter((value) => contains(b, value)));
    return typeof a === "boolean" && typeof b === "boolean" ? a && b : Number(a) & Number(b);
  };
  const ceilDiv = (a, b) => 0 - floordiv(-a, b);
  const maximum = (a, b) => Math.max(Number(a), Number(b));
  const minimum = (a, b) => Math.min(Number(a), Number(b));

  const at = (values, index) => {
    if (values instanceof Dict) return values.at(index);
    const place = index < 0 ? values.length + index : index;
    return place < 0 || place >= values.length ? fail(`no item ${index} of ${values.length}`) : values[place];
  };
  const put = (values, index, value) => {
    if (values instanceof Dict) values.set(index, value);
    else values[index < 0 ? values.length + index : index] = value;
  };
  const slice = (values, from, to) => values.slice(from ?? 0, to ?? undefined);
  const remove = (values, index) => (values instanceof Dict ? values.delete(index) : values.splice(index, 1));

  const best = (sign) => (values, key, fallback) => {
    if (!key && Array.isArray(values) && typeof values[0] === "number") {
      let [most] = values, index = 1;
      for (; index < values.length && typeof values[index] === "number"; index++) if (sign > 0 ? values[index] > most : values[index] < most) most = values[index];
      if (index === values.length) return most;
    }
    let found, measure, any = false;
    for (const value of iter(values)) {
      const its = key ? key(value) : value;
      if (!any || sign * compare(its, measure) > 0) [found, measure, any] = [value, its, true];
    }
    return any ? found : fallback === undefined ? fail("nothing to choose from") : fallback;
  };
  const sum = (values, start = 0) => {
    let total = start;
    for (const value of iter(values)) total = add(total, value);
    return total;
  };
  const sorted = (values, key, reverse = false) => {
    const keyed = list(values).map((value) => [key ? key(value) : value, value]);
    keyed.sort((a, b) => (reverse ? -1 : 1) * compare(a[0], b[0]));
    return keyed.map(([, value]) => value);
  };
  const zip = (...many) => {
    if (many.length !== 2 || !Array.isArray(many[0]) || !Array.isArray(many[1])) return zipped(many);
    const [one, other] = many, rows = [];
    for (let index = 0; index < one.length && index < other.length; index++) rows.push([one[index], other[index]]);
    return rows;
  };
  function* zipped(many) {
    const its = many.map((values) => iter(values)[Symbol.iterator]());
    for (;;) {
      const found = its.map((it) => it.next());
      if (!found.length || found.some(({ done }) => done)) return;
      yield found.map(({ value }) => value);
    }
  }
  function* enumerate(values, start = 0) {
    for (const value of iter(values)) yield [start++, value];
  }
  const range = (from, to, step = 1) => {
    const [first, last] = to === undefined ? [0, from] : [from, to];
    const found = [];
    for (let value = first; step > 0 ? value < last : value > last; value += step) found.push(value);
    return found;
  };
  const next = (values, fallback) => {
    const { value, done } = iter(values)[Symbol.iterator]().next();
    return !done ? value : fallback === undefined ? fail("nothing left") : fallback;
  };
  const any = (values) => {
    for (const value of iter(values)) if (truthy(value)) return true;
    return false;
  };
  const all = (values) => {
    for (const value of iter(values)) if (!truthy(value)) return false;
    return true;
  };
  function* pairwise(values) {
    const every = list(values);
    for (let index = 1; index < every.length; index++) yield [every[index - 1], every[index]];
  }
  const product = (...many) => many.reduce((rows, values) => rows.flatMap((row) => list(values).map((value) => [...row, value])), [[]]);
  const reduce = (function_, values, start) => {
    const every = list(values);
    return start === undefined ? every.reduce((a, b) => function_(a, b)) : every.reduce((a, b) => function_(a, b), start);
  };
  const counter = (values) => {
    const found = new Dict();
    for (const value of iter(values)) found.set(value, found.get(value, 0) + 1);
    return found;
  };
  const dict = (values = []) => (values instanceof Dict ? values.copy() : new Dict(list(values)));
  // An argument that is not given is not None: it has a default value.
  const UNSAID = {};
  const memo = (function_) => {
    const known = new Dict();
    return (...given) => {
      const key = given.map((value) => (value === undefined ? UNSAID : value));
      if (!known.has(key)) known.set(key, function_(...given));
      return known.get(key);
    };
  };

  // Functions that answer equal arguments from memory. Numbers and texts are keys themselves; equal lists, dicts and objects share
  // a node of a tree whose branches are their parts, which is quicker than to write them out. Objects are walked through once.
  const MOST_NODES = 300000, NOTHING = {};
  let nodes = 0, trees = new Map();
  const node = () => {
    nodes++;
    return { key: NOTHING, next: null, branches: null, answer: undefined };
  };
  const branch = (from, key) => {
    if (from.branches === null) {
      if (from.next === null) [from.key, from.next] = [key, node()];
      if (from.key === key) return from.next;
      from.branches = new Map([[from.key, from.next]]);
    }
    let to = from.branches.get(key);
    if (to === undefined) from.branches.set(key, (to = node()));
    return to;
  };
  const tree = (name) => {
    let root = trees.get(name);
    if (root === undefined) trees.set(name, (root = node()));
    return root;
  };
  const keyOf = (value) => {
    const kind = typeof value;
    if (kind === "number" || kind === "string") return value;
    if (kind === "boolean") return value ? 1 : 0; // as Python compares them
    if (value === null || value === undefined) return NOTHING;
    let at;
    if (Array.isArray(value)) {
      at = tree(Array);
      for (let index = 0; index < value.length; index++) at = branch(at, keyOf(value[index]));
      return at;
    }
    if (value instanceof Dict) {
      at = tree(Dict);
      for (const [key, its] of value.data.values()) at = branch(branch(at, keyOf(key)), keyOf(its));
      return at;
    }
    at = Keyed.keyOf(value);
    if (at !== undefined) return at;
    if (!hasFields(value)) return branch(tree(part), part(value));
    at = tree(value.constructor);
    const names = value.constructor.$fields;
    for (let index = 0; index < names.length; index++) at = branch(at, keyOf(value[names[index]]));
    Keyed.keep(value, at);
    return at;
  };
  const recall = (name, given, make) => {
    if (nodes > MOST_NODES) [nodes, trees] = [0, new Map()];
    let at = tree(name);
    for (let index = 0; index < given.length; index++) at = branch(at, keyOf(given[index]));
    if (at.answer === undefined) at.answer = make();
    return at.answer instanceof Dict ? at.answer.copy() : at.answer;
  };

  // Texts of numbers: as Python writes them, which rounds halves of the exact value to even.
  const exact = (value, digits) => {
    if (Math.abs(value) >= 1e21) return BigInt(value).toString() + (digits ? `.${"0".repeat(digits)}` : "");
    const text = value.toFixed(digits), moved = value * 10 ** digits;
    if (digits <= 22 && Math.abs(moved) < 2 ** 52 && Math.abs(moved % 1) !== 0.5) return text; // a half stays one
    const longer = value.toFixed(Math.min(digits + 60, 100));
    const rest = longer.slice(longer.indexOf(".") + 1 + digits);
    if (!longer.includes(".") || !/^50*$/.test(rest)) return text;
    const cut = digits ? longer.slice(0, longer.indexOf(".") + 1 + digits) : longer.slice(0, longer.indexOf("."));
    return Number(cut[cut.length - 1]) % 2 ? text : cut;
  };
  const round = (value, digits) => {
    if (digits !== undefined && digits !== null) return Number(exact(value, digits));
    const low = Math.floor(value);
    const rest = value - low;
    return rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
  };
  const general = (value, precision) => {
    const digits = precision === 0 ? 1 : precision;
    if (value === 0) return Object.is(value, -0) ? "-0" : "0";
    const [mantissa, power] = scientific(value, digits - 1);
    if (power < -4 || power >= digits) return `${trimmed(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
    return trimmed(exact(value, Math.max(digits - 1 - power, 0)));
  };
  // Digits and exponent, with ties to even as above.
  const scientific = (value, digits) => {
    const [head, power] = value.toExponential(digits).split("e");
    const long = value.toExponential(Math.min(digits + 60, 100)).split("e");
    const rest = long[0].slice(long[0].indexOf(".") + 1 + digits);
    const cut = digits ? long[0].slice(0, long[0].indexOf(".") + 1 + digits) : long[0].slice(0, long[0].indexOf("."));
    if (/^50*$/.test(rest) && Number(cut[cut.length - 1]) % 2 === 0) return [cut, Number(long[1])];
    return [head, Number(power)];
  };
  const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  const grouped = (text) => {
    const [whole, rest] = text.split(/(?=[.e])/, 2).concat([""]);
    const tail = text.slice(whole.length);
    return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest === "" ? "" : tail);
  };
  const SPEC = /^(?:(.)?([<>^]))?([+ -])?(#)?(0)?(\d+)?(,)?(?:\.(\d+))?([bcdeEfFgGnosxX%])?$/su;
  const format = (value, spec) => {
    if (spec === "") return str(value);
    const [, fill = " ", align, sign = "-", , zero, width, comma, digits, kind] = SPEC.exec(spec) ?? fail(`cannot format by ${spec}`);
    let text;
    if (typeof value === "string") text = digits === undefined ? value : value.slice(0, Number(digits));
    else if (typeof value === "object" && value !== null) text = str(value);
    else {
      const number = Number(value), size = Math.abs(number);
      const places = digits === undefined ? 6 : Number(digits);
      if (!Number.isFinite(number)) text = Number.isNaN(number) ? "nan" : "inf";
      else if (kind === "f" || kind === "F") text = exact(size, places);
      else if (kind === "%") text = exact(size * 100, places);
      else if (kind === "x" || kind === "o" || kind === "b") text = size.toString({ x: 16, o: 8, b: 2 }[kind]);
      else if (kind === "e") {
        const [mantissa, power] = scientific(size, places);
        text = `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
      } else if (kind === "g") text = general(size, places);
      else if (digits !== undefined && kind === undefined) text = general(size, places);
      else text = Number.isInteger(size) && (comma || kind === "d" || size < 1e16) ? BigInt(size).toString() : str(size);
      if (comma) text = grouped(text);
      if (kind === "%") text += "%";
      const negative = number < 0 || Object.is(number, -0);
      text = (negative ? "-" : sign === "-" ? "" : sign) + text;
    }
    const missing = Number(width ?? 0) - text.length;
    if (missing <= 0) return text;
    if (zero && !align && typeof value !== "string") {
      const [, before, rest] = /^([+ -]?)(.*)$/s.exec(text);
      return before + "0".repeat(missing) + rest;
    }
    const right = align ? align === ">" : typeof value !== "string";
    if (align === "^") return (zero ?? fill).repeat(missing >> 1) + text + (zero ?? fill).repeat(missing - (missing >> 1));
    return right ? (zero ?? fill).repeat(missing) + text : text + (zero ?? fill).repeat(missing);
  };
  // NB: a whole number is written without a fraction: JavaScript does not tell 2 from 2.0.
  const str = (value) => {
    if (value === null || value === undefined) return "None";
    if (typeof value === "string") return value;
    if (typeof value === "boolean") return value ? "True" : "False";
    if (typeof value === "number") {
      if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
      if (Number.isInteger(value) && Math.abs(value) < 1e16) return String(value);
      const [, power] = value.toExponential().split("e").map(Number);
      if (power >= -4 && power < 16) return String(value);
      const [mantissa] = value.toExponential().split("e");
      return `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
    }
    return value.__str__ ? value.__str__() : repr(value);
  };
  const repr = (value) => {
    if (typeof value === "string") return value.includes("'") && !value.includes('"') ? `"${value}"` : `'${value.replace(/\\/g, "\\\\").replace(/'/g, "\\'")}'`;
    if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
    if (value && value.__repr__) return value.__repr__();
    if (value && hasFields(value)) return `${value.constructor.name}(${value.constructor.$fields.map((f) => `${f}=${repr(value[f])}`).join(", ")})`;
    return typeof value === "object" && value !== null && !value.__str__ ? part(value) : str(value);
  };
  const int = (value = 0) => {
    const found = Math.trunc(Number(value));
    return Number.isNaN(found) ? fail(`no whole number: ${repr(value)}`) : found;
  };
  const float = (value = 0) => {
    if (value === "inf" || value === "-inf" || value === "nan") return { inf: Infinity, "-inf": -Infinity, nan: NaN }[value];
    const found = Number(value);
    return Number.isNaN(found) && !Number.isNaN(value) ? fail(`no number: ${repr(value)}`) : found;
  };

  const getattr = (value, name, fallback) => {
    const found = value === null || value === undefined ? undefined : value[name];
    return found !== undefined ? found : fallback === undefined ? fail(`no ${name}`) : fallback;
  };
  const replace = (value, changes) => {
    const found = new value.constructor(SKIP);
    for (const name of Object.keys(value)) {
      const its = changes.has(name) ? changes.at(name) : value[name];
      if (name in found) field(found, name, its);
      else found[name] = its;
    }
    return found;
  };
  const construct = (type, values) => {
    const known = type.$fields ?? [];
    for (const name of values) if (!known.includes(name)) fail(`${type.name} has no ${name}`);
    return new type(...known.map((name) => (values.has(name) ? values.get(name) : undefined)));
  };
  const divmod = (one, other) => [floordiv(one, other), mod(one, other)];
  const asdict = (value) => {
    if (Array.isArray(value)) return value.map(asdict);
    if (value instanceof Dict) return new Dict(value.pairs().map(([key, its]) => [key, asdict(its)]));
    if (value === null || typeof value !== "object" || !hasFields(value)) return value;
    return new Dict(value.constructor.$fields.map((name) => [name, asdict(value[name])]));
  };
  const fieldsOf = (type) => (type.$fields ?? type.constructor.$fields).map((name) => ({ name }));
  const attributes = (type, values) => {
    for (const [name, value] of Object.entries(values)) {
      Object.defineProperty(type, name, { value, configurable: true });
      Object.defineProperty(type.prototype, name, { value, configurable: true, writable: true });
    }
  };
  // A field where a base class has a property of the name: an assignment would meet the property.
  const field = (object, name, value) => Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
  // An attribute that may be a method, which then keeps its object.
  const bound = (value, name) => {
    const found = value[name];
    return typeof found === "function" && !Object.hasOwn(value, name) && !isClass(found) ? found.bind(value) : found;
  };
  const isClass = (value) => value.prototype instanceof Obj || value.prototype instanceof Data;
  const kept = new WeakMap();
  const keep = (object, name, make) => {
    let found = kept.get(object);
    if (found === undefined) kept.set(object, (found = {}));
    if (!(name in found)) found[name] = make();
    return found[name];
  };
  const lazy = (make) => {
    let made = false, value;
    return () => {
      if (!made) [value, made] = [make(), true];
      return value;
    };
  };
  const isinstance = (value, ...types) =>
    types.some((type) => {
      if (type === int) return typeof value === "boolean" || Number.isInteger(value);
      if (type === float) return typeof value === "number";
      if (type === str) return typeof value === "string";
      if (type === bool) return typeof value === "boolean";
      if (type === list || type === null) return type === null ? value === null : Array.isArray(value);
      if (type === dict) return value instanceof Dict;
      if (type === set) return value instanceof Set_;
      return typeof type === "function" && type.prototype !== undefined && value instanceof type;
    });
  const bool = (value = false) => truthy(value);
  const set = (values = []) => new Set_(list(values));
  // Data as JSON: {"$": class, ...fields}, {"$d": pairs} of a dict, {"$s": values} of a set, {"$f": name} of a function, {"$k": name} of what
  // stands in the program.
  const revive = (data) => {
    if (data === null || typeof data !== "object") return data;
    if (Array.isArray(data)) return data.map(revive);
    if (data.$n !== undefined) return float(data.$n);
    if (data.$f !== undefined) return functions[data.$f] ?? fail(`no function ${data.$f}`);
    if (data.$k !== undefined) return (constants[data.$k] ?? fail(`no constant ${data.$k}`))();
    if (data.$c !== undefined) return classes[data.$c] ?? fail(`no class ${data.$c}`);
    if (data.$d !== undefined) return new Dict(data.$d.map(([key, value]) => [revive(key), revive(value)]));
    if (data.$o !== undefined) return new Dict(Object.entries(data.$o).map(([key, value]) => [key, revive(value)]));
    if (data.$s !== undefined) return new Set_(data.$s.map(revive));
    const type = classes[data.$] ?? fail(`no class ${data.$}`);
    return new type(...type.$fields.map((name) => (name in data ? revive(data[name]) : undefined)));
  };

  // Methods of Python's own types, for a receiver of any of them; of an object of ours its own.
  const on = (name, ours) => (value, ...given) => {
    if (typeof value !== "object" || value === null || value instanceof Dict || Array.isArray(value) || value instanceof Set_) return ours(value, ...given);
    return typeof value[name] === "function" && !value[Symbol.iterator] ? value[name](...given) : ours(value, ...given);
  };
  const method = Object.fromEntries(
    Object.entries({
      append: (value, item) => void value.push(item),
      extend: (value, items) => void value.push(...items),
      insert: (value, place, item) => void value.splice(place, 0, item),
      index: (value, item) => {
        const place = typeof value === "string" ? value.indexOf(item) : list(value).findIndex((its) => eq(its, item));
        return place < 0 ? fail(`${repr(item)} is not in it`) : place;
      },
      count: (value, item) => (typeof value === "string" ? value.split(item).length - 1 : list(value).filter((its) => eq(its, item)).length),
      copy: (value) => (value instanceof Dict ? dict(value) : value instanceof Set_ ? set(value) : list(value)),
      items: (value) => value.pairs(),
      keys: (value) => set(value),
      values: (value) => value.pairs().map(([, its]) => its),
      get: (value, key, fallback = null) => value.get(key, fallback),
      setdefault: (value, key, fallback = null) => {
        if (!value.has(key)) value.set(key, fallback);
        return value.get(key);
      },
      pop: (value, key, fallback) => {
        if (Array.isArray(value)) return key === undefined ? value.pop() : value.splice(key < 0 ? value.length + key : key, 1)[0];
        const found = value.has(key) ? value.get(key) : fallback === undefined ? fail(`no key ${repr(key)}`) : fallback;
        value.delete(key);
        return found;
      },
      update: (value, more) => void ior(value, more),
      add: (value, item) => void value.add(item),
      discard: (value, item) => void value.delete(item),
      union: bitor,
      join: (value, items) => list(items).join(value),
      split: (value, by, most = -1) => {
        if (by === undefined || by === null) return value.split(/\s+/u).filter((its) => its !== "");
        const every = value.split(by);
        return most < 0 || every.length <= most + 1 ? every : [...every.slice(0, most), every.slice(most).join(by)];
      },
      partition: (value, by) => {
        const place = value.indexOf(by);
        return place < 0 ? [value, "", ""] : [value.slice(0, place), by, value.slice(place + by.length)];
      },
      rpartition: (value, by) => {
        const place = value.lastIndexOf(by);
        return place < 0 ? ["", "", value] : [value.slice(0, place), by, value.slice(place + by.length)];
      },
      replace: (value, from, to, most = -1) => (most < 0 ? value.replaceAll(from, () => to) : method.split(value, from, most).join(to)),
      strip: (value, what) => (what === undefined ? value.trim() : method.lstrip(method.rstrip(value, what), what)),
      lstrip: (value, what = " \t\n") => {
        let at = 0;
        while (at < value.length && what.includes(value[at])) at++;
        return value.slice(at);
      },
      rstrip: (value, what = " \t\n") => {
        let at = value.length;
        while (at > 0 && what.includes(value[at - 1])) at--;
        return value.slice(0, at);
      },
      lower: (value) => value.toLowerCase(),
      upper: (value) => value.toUpperCase(),
      capitalize: (value) => value.charAt(0).toUpperCase() + value.slice(1).toLowerCase(),
      startswith: (value, what) => (Array.isArray(what) ? what : [what]).some((its) => value.startsWith(its)),
      endswith: (value, what) => (Array.isArray(what) ? what : [what]).some((its) => value.endsWith(its)),
      removeprefix: (value, what) => (what !== "" && value.startsWith(what) ? value.slice(what.length) : value),
      removesuffix: (value, what) => (what !== "" && value.endsWith(what) ? value.slice(0, -what.length) : value),
      isalnum: (value) => /^[\p{L}\p{N}]+$/u.test(value),
      isdigit: (value) => /^\d+$/.test(value),
      ljust: (value, width) => value.padEnd(width),
      rjust: (value, width) => value.padStart(width),
      is_integer: (value) => Number.isInteger(value),
      model_validate: (type, values) => construct(type, values),
      model_copy: (value, update) => replace(value, update),
    }).map(([name, ours]) => [name, on(name, ours)]),
  );

  return {
    SKIP, Obj, Data, Exception, Dict, Set: Set_, classes, functions, constants, fail, hash, iter, list, len, truthy, eq, compare, contains,
    add, sub, mul, div, mod, floordiv, pow, bitor, ior, iadd, bitand, ceilDiv, maximum, minimum, at, put, slice, remove,
    max: best(1), min: best(-1), sum, sorted, zip, enumerate, range, next, any, all, pairwise, product, reduce, counter, dict, set, memo, recall,
    abs: (value) => (value < 0 ? -value : Number(value)), round, format, str, repr, int, float, bool, getattr, Ellipsis: Object.freeze({}), replace, construct, asdict, identity, divmod, fieldsOf,
    attributes, bound, field, keep, lazy, isinstance, revive, method,
    copied: (value) => (Array.isArray(value) ? [...value] : value instanceof Dict ? dict(value) : replace(value, new Dict())),
    fromkeys: (keys, value = null) => new Dict(list(keys).map((key) => [key, value])),
    map: (function_, ...many) => list(zip(...many)).map((given) => function_(...given)),
    filter: (function_, values) => list(values).filter((value) => truthy(function_ ? function_(value) : value)),
    reversed: (values) => list(values).reverse(),
    chain: (...many) => many.flatMap(list),
    log10: Math.log10, log2: Math.log2, log: (value, base) => (base === undefined ? Math.log(value) : Math.log(value) / Math.log(base)),
    type: (value) => value.constructor,
    id: (value) => value,
  };
})();
