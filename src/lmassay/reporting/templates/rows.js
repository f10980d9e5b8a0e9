// The rows of the example browser: how they are unpacked, sorted and searched. Columns are typed arrays of indices into a
// list of all texts.

const pause = () => new Promise((resolve) => setTimeout(resolve));
// Safari has no requestIdleCallback.
const whenIdle = (work) => (window.requestIdleCallback ? requestIdleCallback(work) : setTimeout(work, 500));
const counted = new Intl.NumberFormat("en").format;
const searchable = (text) => text.normalize("NFC").toLowerCase();
// Control characters are invisible, so they are replaced by the symbols for them (U+2400 and after).
const visible = (text) => text.replace(/[\x00-\x08\x0b-\x1f]/g, (character) => String.fromCharCode(0x2400 + character.charCodeAt(0)));

// A score as text: a whole number as it is, any other number with four decimals, and with a true minus sign.
function rounded(value) {
  if (Number.isNaN(value)) return "";
  const text = Number.isInteger(value) ? String(value) : value.toFixed(4);
  return text.replace("-", "−");
}

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

// A name that may break after an underscore, slash, colon or equals sign; the whole name is in its title.
function breakable(name) {
  const shown = make("div");
  shown.title = name;
  const parts = name.split(/(?<=[\p{L}\p{N}][_/:=])(?=[\p{L}\p{N}])/u);
  parts.forEach((part, at) => {
    if (at > 0) shown.append(make("wbr"));
    shown.append(part);
  });
  return shown;
}

async function unpack(base64) {
  const pieces = [];
  const size = 1 << 20; // a multiple of four, so that each piece is valid base64
  for (let at = 0; at < base64.length; at += size) {
    const binary = atob(base64.slice(at, at + size));
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
    pieces.push(bytes);
    await pause();
  }
  const stream = new Blob(pieces).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).text()).split("\n");
}

// Reads line by line, with pauses, so that the page stays responsive.
async function read(lines) {
  const data = JSON.parse(lines[0]);
  await pause();
  const texts = JSON.parse(lines[1]);
  const strings = [];
  const searchStrings = []; // the strings in the form in which they are searched
  for (const line of lines.slice(2)) {
    await pause();
    for (const text of JSON.parse(line)) {
      strings.push(text);
      searchStrings.push(searchable(text));
    }
  }
  await pause();
  const columns = {};
  for (const name of ["task", "run", "state", "id"]) columns[name] = Int32Array.from(data[name]);
  const groups = data.groups.map(([name, numbers]) => ({ name, values: Int32Array.from(numbers) }));
  const scores = data.scores.map(([name, numbers]) => ({ name, values: Float64Array.from(numbers, (v) => (v === null ? NaN : v)) }));
  await pause();
  // The texts that are columns of the table: task → a list of [name, name of the text that it is compared with, or ""].
  const keys = new Map(data.keys);
  return { size: data.rows, keys, names: data.names, strings, searchStrings, texts, columns, groups, scores, parts: parts(texts, columns, groups) };
}

// What a search covers: the texts of a row, its id, run and groups, as indices into the list of all texts. Those of row r
// are strings[start[r]] to strings[start[r + 1] - 1].
function parts(texts, columns, groups) {
  const start = new Uint32Array(texts.length + 1);
  const strings = [];
  texts.forEach((own, row) => {
    strings.push(columns.id[row], columns.run[row]);
    for (let i = 1; i < own.length; i += 2) strings.push(own[i]);
    for (const group of groups) if (group.values[row] >= 0) strings.push(group.values[row]);
    start[row + 1] = strings.length;
  });
  return { start, strings: Uint32Array.from(strings) };
}

// Whether the full name of a text is a form of a name: "answer (length)" and "answer 1 of 3" are forms of "answer".
function isNamed(fullName, name) {
  if (fullName === name || fullName.startsWith(`${name} (`)) return true;
  return fullName.startsWith(name) && /^ \d+ of \d+$/.test(fullName.slice(name.length));
}

// Returns the text with this name for each row, or -1; with a task, only for the rows of that task.
function textsNamed(data, name, task = -1) {
  const wanted = data.names.map((text) => isNamed(text, name));
  return Int32Array.from(data.texts, (own, row) => {
    if (task >= 0 && data.columns.task[row] !== task) return -1;
    // The numbers are alternately those of names and of texts.
    for (let i = 0; i < own.length; i += 2) if (wanted[own[i]]) return own[i + 1];
    return -1;
  });
}

// The words of a text, each with whether it differs from the other text. Words that both texts share at the beginning and
// at the end are the same. Words between them count as changed, except that texts of equal length are compared word by word.
function changedWords(text, other) {
  const words = text.split(/(\s+)/);
  const others = other.split(/(\s+)/);
  let start = 0;
  while (start < words.length && start < others.length && words[start] === others[start]) start++;
  let end = 0;
  while (end < words.length - start && end < others.length - start && words.at(-1 - end) === others.at(-1 - end)) end++;
  const sameLength = words.length === others.length;
  return words.map((word, at) => {
    const between = at >= start && at < words.length - end;
    return [word, between && word.trim() !== "" && !(sameLength && others[at] === word)];
  });
}

// Longer than almost any word: text of this length without a space is in a script that has none, such as Chinese.
const MAX_WORD = 40;

// The beginning of the word at a position; in a script without spaces, the position itself.
function wordStart(text, position) {
  const start = text.slice(0, position).search(/\S*$/);
  return position - start <= MAX_WORD ? start : position;
}

// Returns, for each text, how many characters at its beginning are the same in all rows of its run, such as instructions.
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
    // Cut at the beginning of a word. A short beginning is shown in full, and so is the text of a run that has only one.
    if (same.length > 20 && same.length < begin.length) cut.set(run, wordStart(same, same.length));
  }
  const skip = new Map();
  column.forEach((value, row) => value >= 0 && skip.set(value, cut.get(data.columns.run[row]) ?? 0));
  return skip;
}

// The part of a text after "from", without most of what it shares with the text of the row above: questions about one
// story, for example, differ only after the story.
const SHOWN_OF_SHARED = 18;
const MIN_SHARED_WITH_ABOVE = 60;
function distinctPart(text, from, above) {
  const inOneLine = (part) => part.replace(/\s+/g, " ");
  let same = from;
  while (same < text.length && text[same] === above[same]) same++;
  const atWord = wordStart(text, same);
  const lead = from ? "… " : "";
  const isWorthSkipping = same < text.length && atWord - from > MIN_SHARED_WITH_ABOVE;
  if (!isWorthSkipping) return lead + inOneLine(text.slice(from, from + 240));
  // Whole words of the beginning; a script without spaces is cut anywhere.
  const begin = inOneLine(text.slice(from, from + SHOWN_OF_SHARED)).replace(/(?<=\S) \S*$/, "");
  return `${lead}${begin} … ${inOneLine(text.slice(atWord, atWord + 240))}`;
}

// The rows in ascending order of a column. Rows without a value are returned separately: they always come last.
function ordered(data, { values: column, skip }) {
  const values = column instanceof Float64Array ? column : ranks(data, column, skip);
  const has = [];
  const without = [];
  values.forEach((value, row) => (Number.isNaN(value) ? without : has).push(row));
  has.sort((a, b) => values[a] - values[b] || a - b);
  return { has, without };
}

// The rank of each text in its column. Numbers inside a text are compared as numbers: 9 before 10.
function ranks(data, column, skip) {
  const values = [...new Set(column)].filter((value) => value >= 0);
  const padded = (text, from) => text.slice(from, from + 60).replace(/\d+/g, (digits) => digits.padStart(10, "0"));
  // Sorting strings without a comparison function is several times as fast. So each key is a text followed by its number.
  const keyOf = (value) => `${padded(data.searchStrings[value], skip?.get(value) ?? 0)}\u0001${value}`;
  const keys = values.map(keyOf).sort();
  const rank = new Map();
  keys.forEach((key, place) => {
    const value = Number(key.slice(key.lastIndexOf("\u0001") + 1));
    rank.set(value, place);
  });
  return Float64Array.from(column, (value) => (value < 0 ? NaN : rank.get(value)));
}

// The words of a query, and phrases "in quotes"; a row must contain all of them.
function terms(query) {
  const matches = query.matchAll(/"([^"]+)"?|([^\s"]+)/g);
  return [...matches].map((match) => searchable(match[1] || match[2]));
}

// Returns 1 for each row in which a term occurs, otherwise 0.
function containing(data, term) {
  const hits = Uint8Array.from(data.searchStrings, (text) => (text.includes(term) ? 1 : 0));
  const { start, strings } = data.parts;
  const rows = new Uint8Array(data.size);
  for (let row = 0; row < rows.length; row++) {
    for (let i = start[row]; i < start[row + 1] && !rows[row]; i++) rows[row] = hits[strings[i]];
  }
  return rows;
}

// Appends the text, with the search terms highlighted.
function mark(element, text, searched) {
  const low = text.toLowerCase();
  // In a few languages, a letter becomes longer in lower case, and positions no longer match.
  const usable = low.length === text.length ? searched : [];
  const nextHit = (from) => {
    const hits = [];
    for (const term of usable) {
      const position = low.indexOf(term, from);
      if (position >= 0) hits.push({ position, length: term.length });
    }
    hits.sort((a, b) => a.position - b.position);
    return hits[0];
  };
  let at = 0;
  for (let hit = nextHit(0); hit; hit = nextHit(at)) {
    const end = hit.position + hit.length;
    element.append(text.slice(at, hit.position), make("mark", text.slice(hit.position, end)));
    at = end;
  }
  element.append(text.slice(at));
}
