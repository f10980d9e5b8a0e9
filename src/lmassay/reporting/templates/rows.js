// The rows of the example browser: unpacked from the page, ordered, searched. They live in typed arrays that point into one
// list of texts.

const pause = () => new Promise((resolve) => setTimeout(resolve));
// Safari has no requestIdleCallback.
const whenIdle = (work) => (window.requestIdleCallback ? requestIdleCallback(work) : setTimeout(work, 500));
const counted = new Intl.NumberFormat("en").format;
const rounded = (value) => (Number.isNaN(value) ? "" : Number.isInteger(value) ? String(value) : value.toFixed(4));
const searchable = (text) => text.normalize("NFC").toLowerCase();
// Control characters would be invisible; their pictures are not.
const visible = (text) => text.replace(/[\x00-\x08\x0b-\x1f]/g, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0)));

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

async function unpack(base64) {
  const pieces = [];
  const size = 1 << 20; // a multiple of four, so that each piece is base64 of its own
  for (let at = 0; at < base64.length; at += size) {
    const signs = atob(base64.slice(at, at + size));
    const bytes = new Uint8Array(signs.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = signs.charCodeAt(i);
    pieces.push(bytes);
    await pause();
  }
  const stream = new Blob(pieces).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).text()).split("\n");
}

// Line by line, with pauses, so that the page can be read meanwhile.
async function read(lines) {
  const data = JSON.parse(lines[0]);
  await pause();
  const texts = JSON.parse(lines[1]);
  const strings = [];
  const found = []; // the strings as they are searched
  for (const line of lines.slice(2)) {
    await pause();
    for (const text of JSON.parse(line)) {
      strings.push(text);
      found.push(searchable(text));
    }
  }
  await pause();
  const columns = {};
  for (const name of ["task", "run", "state", "id"]) columns[name] = Int32Array.from(data[name]);
  const groups = data.groups.map(([name, values]) => ({ name, of: Int32Array.from(values) }));
  const scores = data.scores.map(([name, values]) => ({ name, of: Float64Array.from(values, (v) => (v === null ? NaN : v)) }));
  await pause();
  return { size: data.rows, names: data.names, strings, found, texts, columns, groups, scores, parts: parts(texts, columns, groups) };
}

// What a search looks into: the texts of a row, its id, run and groups. Those of row r are of[start[r]] to of[start[r + 1] - 1].
function parts(texts, columns, groups) {
  const start = new Uint32Array(texts.length + 1);
  const of = [];
  texts.forEach((own, row) => {
    of.push(columns.id[row], columns.run[row]);
    for (let i = 1; i < own.length; i += 2) of.push(own[i]);
    for (const group of groups) if (group.of[row] >= 0) of.push(group.of[row]);
    start[row + 1] = of.length;
  });
  return { start, of: Uint32Array.from(of) };
}

// How much of each text is the same for all rows of a run: the instructions that every prompt begins with.
function sharedBeginnings(data, column) {
  const first = new Map();
  const shared = new Map();
  column.forEach((value, row) => {
    if (value < 0) return;
    const run = data.columns.run[row];
    const text = data.strings[value];
    if (!first.has(run)) first.set(run, text);
    const begin = first.get(run);
    const most = Math.min(shared.get(run) ?? begin.length, text.length);
    let at = 0;
    while (at < most && begin[at] === text[at]) at++;
    shared.set(run, at);
  });
  const cut = new Map();
  for (const [run, begin] of first) {
    const same = begin.slice(0, shared.get(run));
    // Back to the beginning of a word; a short beginning, or a run of one text, is shown whole.
    if (same.length > 20 && same.length < begin.length) cut.set(run, Math.max(same.lastIndexOf(" "), same.lastIndexOf("\n")) + 1);
  }
  const skip = new Map();
  column.forEach((value, row) => value >= 0 && skip.set(value, cut.get(data.columns.run[row]) ?? 0));
  return skip;
}

// Rows by a column, upwards; those without a value stand apart, to be last whichever way is sorted.
function ordered(data, { of: column, skip }) {
  const values = column instanceof Float64Array ? column : ranks(data, column, skip);
  const has = [];
  const without = [];
  values.forEach((value, row) => (Number.isNaN(value) ? without : has).push(row));
  has.sort((a, b) => values[a] - values[b] || a - b);
  return { has, without };
}

// The place of each text among all of its column. Numbers inside a text count as numbers: 9 before 10.
function ranks(data, column, skip) {
  const values = [...new Set(column)].filter((value) => value >= 0);
  const padded = (text, from) => text.slice(from, from + 60).replace(/\d+/g, (digits) => digits.padStart(10, "0"));
  // Without a function of ours to compare them, strings are sorted several times as fast.
  const keys = values.map((value) => `${padded(data.found[value], skip?.get(value) ?? 0)}\u0001${value}`).sort();
  const rank = new Map(keys.map((key, place) => [Number(key.slice(key.lastIndexOf("\u0001") + 1)), place]));
  return Float64Array.from(column, (value) => (value < 0 ? NaN : rank.get(value)));
}

// Words, or several of them "in quotes"; all must occur in a row.
const terms = (query) => [...query.matchAll(/"([^"]+)"?|([^\s"]+)/g)].map((match) => searchable(match[1] || match[2]));

function containing(data, term) {
  const hits = Uint8Array.from(data.found, (text) => (text.includes(term) ? 1 : 0));
  const { start, of } = data.parts;
  const rows = new Uint8Array(data.size);
  for (let row = 0; row < rows.length; row++) {
    for (let i = start[row]; i < start[row + 1] && !rows[row]; i++) rows[row] = hits[of[i]];
  }
  return rows;
}

// The text, with what was searched for marked in it.
function mark(element, text, searched) {
  const low = text.toLowerCase();
  // In a few languages letters become longer in lower case, and places no longer fit.
  const usable = low.length === text.length ? searched : [];
  const next = (from) => {
    const places = usable.map((term) => [low.indexOf(term, from), term.length]).filter(([place]) => place >= 0);
    return places.sort((a, b) => a[0] - b[0])[0];
  };
  let at = 0;
  for (let found = next(0); found; found = next(at)) {
    const [place, length] = found;
    element.append(text.slice(at, place), make("mark", text.slice(place, place + length)));
    at = place + length;
  }
  element.append(text.slice(at));
}
