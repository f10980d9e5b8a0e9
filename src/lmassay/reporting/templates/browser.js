// The example browser. Only the rows in view are elements of the document. Everything that comes from the data is inserted
// as text, never as markup.

const SPARE = 8; // rows that are drawn above and below those in view
const UNSORTED = { column: null, down: false };
const WORDS_BEFORE_CHANGE = 4;
const SHORT_TEXT = 16; // a column is narrow if no text in it has more characters, such as a column of answers by letter

function widthOf({ kind, title, isShort }) {
  const column = make("col", undefined, isShort ? "short" : kind);
  if (kind === "score") column.style.width = `${Math.max(5, 0.5 * title.length + 2)}rem`;
  return column;
}

class Browser {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.form = root.querySelector("form");
    this.scroller = root.querySelector(".rows");
    this.table = this.scroller.querySelector("table");
    this.detail = root.querySelector(".detail");
    this.count = root.querySelector(".count");
    this.filters = new Filters(this.form, data);
    this.orders = new Map();
    this.columns = [];
    this.view = new Uint32Array(0);
    this.sort = UNSORTED;
    this.cursor = -1; // the place in the view to which the reader has moved with the keyboard
    this.chosen = -1; // the row of the data that is open
    this.height = 48;
    this.from = -1;
    this.makeColumns();
    this.listen();
    this.restore();
    // Sorting texts is slow, so it is done in advance, while the page has nothing else to do.
    for (const column of [this.id, this.first]) whenIdle(() => this.order(column));
  }

  makeColumns() {
    const { columns, texts, scores, keys } = this.data;
    const column = (kind, values, title = kind) => {
      const tasks = new Set();
      const has = values instanceof Float64Array ? (value) => !Number.isNaN(value) : (value) => value >= 0;
      values.forEach((value, row) => has(value) && tasks.add(columns.task[row]));
      return { kind, values, title, tasks };
    };
    const textColumn = (values, title) => {
      const isShort = values.every((value) => value < 0 || this.data.strings[value].length <= SHORT_TEXT);
      return { ...column("text", values, title), isShort, skip: sharedBeginnings(this.data, values) };
    };
    this.id = column("id", columns.id);
    // These two columns are shown for evaluations without key texts, and for rows of several evaluations.
    this.first = textColumn(Int32Array.from(texts, (own) => (own.length ? own[1] : -1)), "text");
    this.answer = textColumn(textsNamed(this.data, "answer"), "answer");
    this.keyColumns = new Map();
    for (const [task, names] of keys) {
      const made = names.map(([name, other]) => ({
        ...textColumn(textsNamed(this.data, name, task), name),
        other: other ? textsNamed(this.data, other, task) : null,
      }));
      const filled = made.filter((key) => key.tasks.size);
      if (filled.length) this.keyColumns.set(task, filled);
    }
    this.errors = textsNamed(this.data, "error");
    this.run = column("run", columns.run);
    this.state = column("state", columns.state);
    this.scores = scores.map(({ name, values }) => column("score", values, name));
  }

  listen() {
    let timer = 0;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", () => {
      // The form is cleared after this event.
      setTimeout(() => {
        this.filters.follow("all");
        this.sort = UNSORTED;
        this.close();
        this.refresh();
        this.remember(true);
      });
    });
    this.form.addEventListener("input", (event) => {
      clearTimeout(timer);
      const { name, value } = event.target;
      if (name === "search") {
        // Wait until the reader stops typing. The Back button skips the searches in between.
        timer = setTimeout(() => {
          this.refresh();
          this.remember(false);
        }, 60);
        return;
      }
      if (name === "sort") {
        const [place, direction] = value.split(" ");
        this.sort = value === "" ? UNSORTED : { column: this.columns[Number(place)], down: direction === "down" };
      } else this.filters.follow(name);
      this.refresh();
      this.remember(true);
    });
    let frame = 0;
    const later = (redraw) => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => this.draw(redraw));
    };
    this.scroller.addEventListener("scroll", () => later(false), { passive: true });
    new ResizeObserver(() => later(true)).observe(this.scroller);
    this.table.addEventListener("keydown", (event) => event.target === this.table && this.onKey(event));
    this.detail.addEventListener("keydown", (event) => event.key === "Escape" && this.backToTable());
    this.form.elements.search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "ArrowDown") return;
      event.preventDefault();
      this.table.focus();
      if (this.cursor < 0) this.moveTo(0);
    });
    this.table.tBodies[0].addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-place]");
      if (row) this.choose(Number(row.dataset.place), true);
    });
    // j and k work wherever the reader is, as long as the table is open and nothing is being typed.
    document.addEventListener("keydown", (event) => {
      const isOpen = this.root.querySelector("details.section")?.open ?? true;
      if (!isOpen || event.target === this.table || isTyping(event) || (event.key !== "j" && event.key !== "k")) return;
      this.table.focus();
      this.onKey(event);
    });
    addEventListener("popstate", () => this.restore());
    addEventListener("hashchange", () => parameters(this.root) && this.restore());
  }

  // Sets filters, sort order and open example as the address says; all rows if it says nothing.
  restore() {
    const wanted = parameters(this.root) ?? new URLSearchParams();
    this.filters.restore(wanted);
    this.pickColumns();
    const column = this.columns.find(({ title }) => title === wanted.get("sort"));
    this.sort = column ? { column, down: wanted.has("down") } : UNSORTED;
    this.refresh();
    const { id, run } = this.data.columns;
    const isWanted = (row) => {
      if (this.data.strings[id[row]] !== wanted.get("row")) return false;
      return !wanted.has("in") || this.data.strings[run[row]] === wanted.get("in");
    };
    const place = this.view.findIndex(isWanted);
    if (place >= 0) this.choose(place, false, false);
    else this.close();
  }

  // Writes filters, sort order and open example into the address.
  remember(push) {
    const chosen = this.filters.chosen;
    const { column, down } = this.sort;
    if (this.columns.includes(column)) {
      chosen.sort = column.title;
      if (down) chosen.down = "1";
    }
    if (this.chosen >= 0) {
      const { id, run } = this.data.columns;
      chosen.row = this.data.strings[id[this.chosen]];
      if (!chosen.run && this.filters.has("run")) chosen.in = this.data.strings[run[this.chosen]];
    }
    remember(this.root, chosen, push);
  }

  text(value) {
    return value < 0 ? "" : visible(this.data.strings[value]);
  }

  // The controls and the sort order determine which rows are shown.
  refresh() {
    const began = performance.now();
    const rows = this.filters.rows();
    this.pickColumns();
    const column = this.columns.includes(this.sort.column) ? this.sort.column : null;
    this.view = this.arranged(rows, column);
    let status = `${counted(this.view.length)} of ${counted(this.data.size)} shown`;
    if (column) status += `, sorted by ${visible(column.title)} (${this.sort.down ? "descending" : "ascending"})`;
    this.count.textContent = status;
    this.table.setAttribute("aria-rowcount", this.view.length + 1);
    this.drawHeads();
    this.offerSorting();
    this.scroller.scrollTop = 0;
    this.cursor = this.chosen < 0 ? -1 : this.view.indexOf(this.chosen);
    this.draw(true);
    performance.measure("lmassay browser", { start: began, end: performance.now() });
  }

  order(column) {
    if (!this.orders.has(column)) this.orders.set(column, ordered(this.data, column));
    return this.orders.get(column);
  }

  arranged(rows, column) {
    const shown = [];
    const take = (row) => rows[row] && shown.push(row);
    if (!column) {
      for (let row = 0; row < rows.length; row++) take(row);
      return Uint32Array.from(shown);
    }
    const { has, without } = this.order(column);
    if (this.sort.down) for (let i = has.length - 1; i >= 0; i--) take(has[i]);
    else has.forEach(take);
    without.forEach(take);
    return Uint32Array.from(shown);
  }

  // Chooses the columns: only scores of the evaluations in view, and no run or state that is the same in every row.
  pickColumns() {
    const { task, run, state } = this.filters.wanted;
    const { columns } = this.data;
    let within = task === "" ? -1 : Number(task);
    if (run !== "") within = columns.task[columns.run.indexOf(Number(run))];
    const measured = (column) => column.tasks.size && (within < 0 || column.tasks.has(within));
    // A page about one evaluation has no choice of evaluations.
    if (within < 0 && !this.filters.has("task")) within = columns.task[0];
    this.columns = [this.id, ...(this.keyColumns.get(within) ?? [this.first, this.answer].filter(measured))];
    this.lastText = this.columns.at(-1);
    if (run === "" && this.filters.has("run")) this.columns.push(this.run);
    if (state === "" && this.filters.has("state")) this.columns.push(this.state);
    this.columns.push(...this.scores.filter(measured));
  }

  // The first click on a header sorts in ascending order, the second in descending order, the third not at all.
  sortBy(column) {
    if (this.sort.column !== column) this.sort = { column, down: false };
    else this.sort = this.sort.down ? UNSORTED : { column, down: true };
    this.refresh();
    this.remember(true);
  }

  // Fills the menu that replaces the header of the table on a narrow screen.
  offerSorting() {
    const { sort } = this.form.elements;
    const options = [new Option("as in the data", "")];
    this.columns.forEach(({ title }, place) => {
      options.push(new Option(`${visible(title)} ▲`, `${place} up`), new Option(`${visible(title)} ▼`, `${place} down`));
    });
    sort.replaceChildren(...options);
    const place = this.columns.indexOf(this.sort.column);
    sort.value = place < 0 ? "" : `${place} ${this.sort.down ? "down" : "up"}`;
  }

  drawHeads() {
    const row = make("tr");
    row.setAttribute("aria-rowindex", 1);
    for (const column of this.columns) {
      const head = make("th", undefined, column.kind);
      const button = make("button", visible(column.title));
      const direction = this.sort.down ? "descending" : "ascending";
      button.type = "button";
      button.addEventListener("click", () => this.sortBy(column));
      head.scope = "col";
      head.setAttribute("aria-sort", column === this.sort.column ? direction : "none");
      head.append(button);
      row.append(head);
    }
    const focused = [...this.table.tHead.querySelectorAll("button")].indexOf(document.activeElement);
    this.table.querySelector("colgroup").replaceChildren(...this.columns.map(widthOf));
    this.table.tHead.replaceChildren(row);
    if (focused >= 0 && focused < this.columns.length) row.cells[focused].firstChild.focus({ preventScroll: true });
  }

  draw(redraw) {
    const from = Math.max(0, Math.floor(this.scroller.scrollTop / this.height) - SPARE);
    if (!redraw && from === this.from) return;
    this.from = from;
    const upto = Math.min(this.view.length, from + Math.ceil(this.scroller.clientHeight / this.height) + 2 * SPARE);
    const rows = [this.space(from)];
    for (let place = from; place < upto; place++) rows.push(this.line(place));
    rows.push(this.space(this.view.length - upto));
    this.table.tBodies[0].replaceChildren(...rows);
    // Rows may be higher than assumed, for example in a larger font.
    const rowHeight = rows.length > 2 ? rows[1].getBoundingClientRect().height : this.height;
    if (rowHeight && Math.abs(rowHeight - this.height) > 0.5) {
      this.height = rowHeight;
      this.draw(true);
    }
  }

  // An empty row in place of rows that are not drawn.
  space(count) {
    const row = make("tr", undefined, "space");
    const cell = make("td");
    row.setAttribute("aria-hidden", "true");
    cell.colSpan = this.columns.length;
    cell.style.height = `${count * this.height}px`;
    row.append(cell);
    return row;
  }

  line(place) {
    const row = this.view[place];
    const line = make("tr");
    line.id = `${this.root.id}-row-${row}`;
    line.dataset.place = place;
    line.setAttribute("role", "row");
    line.setAttribute("aria-rowindex", place + 2); // counted from 1, and the header is a row
    line.setAttribute("aria-selected", String(row === this.chosen));
    for (const column of this.columns) {
      const cell = make(column.kind === "id" ? "th" : "td", undefined, column.kind);
      cell.setAttribute("role", column.kind === "id" ? "rowheader" : "gridcell");
      if (column.kind === "id") cell.scope = "row";
      // On a narrow screen, where the table has no header, each cell names its column.
      cell.dataset.title = visible(column.title);
      if (column.kind === "text") cell.append(this.inShort(column, row, this.view[place - 1]));
      else if (column.kind === "score") cell.textContent = rounded(column.values[row]);
      else if (column.kind === "run") cell.append(breakable(this.text(column.values[row]).slice(0, 160)));
      else cell.textContent = this.text(column.values[row]).slice(0, 160);
      line.append(cell);
    }
    if (this.text(this.state.values[row]) === "error") line.classList.add("failed");
    if (place === this.cursor) line.classList.add("cursor");
    return line;
  }

  // The part of a text that a cell shows. The beginning that all rows share is left out. A text that was changed begins
  // shortly before the change, and one that begins like the text in the row above continues where the two differ.
  inShort(column, row, above) {
    const value = column.values[row];
    const shown = make("div");
    shown.dir = "auto";
    shown.lang = "";
    // An example with an error has no answer; the message takes its place.
    if (value < 0 && this.errors[row] >= 0 && column === this.lastText) {
      shown.textContent = this.text(this.errors[row]).slice(0, 240);
      shown.className = "error";
      return shown;
    }
    const other = column.other?.[row] ?? -1;
    if (value >= 0 && other >= 0 && other !== value) {
      const words = changedWords(this.text(value).slice(0, 2000), this.text(other).slice(0, 2000));
      const first = words.findIndex(([, changed]) => changed);
      // Twice as many entries as words, because the list also contains the spaces between words.
      const from = Math.max(0, first - 2 * WORDS_BEFORE_CHANGE);
      if (from) shown.append("… ");
      appendChanged(shown, words.slice(from, from + 60));
      return shown;
    }
    const from = column.skip?.get(value) ?? 0;
    shown.textContent = distinctPart(this.text(value), from, above === undefined ? "" : this.text(column.values[above]));
    return shown;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.view.length) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 2);
    const now = this.cursor;
    const last = this.view.length - 1;
    const moves = {
      ArrowDown: now + 1,
      j: now + 1,
      ArrowUp: now - 1,
      k: now - 1,
      PageDown: now + page,
      PageUp: now - page,
      Home: 0,
      End: last,
    };
    const to = moves[event.key];
    if (event.key === "Escape" && this.chosen >= 0) {
      this.close();
      this.remember(true);
    } else if ((event.key === "Enter" || event.key === " ") && now >= 0) this.choose(now, true);
    else if (to !== undefined) this.moveTo(Math.min(last, Math.max(0, to)));
    else return;
    event.preventDefault();
  }

  // Moves the cursor to a row. If an example is open, that of the new row is opened instead.
  moveTo(place) {
    const { scroller } = this;
    this.cursor = place;
    const top = place * this.height;
    const bottom = top + this.height + this.table.tHead.getBoundingClientRect().height;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (bottom > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = bottom - scroller.clientHeight;
    if (this.chosen >= 0) this.choose(place, false);
    else this.draw(true);
    this.table.setAttribute("aria-activedescendant", `${this.root.id}-row-${this.view[place]}`);
  }

  // Opens an example. "reveal" scrolls to it on a narrow screen, where it is below the table; "remembers" says whether to
  // write it into the address.
  choose(place, reveal, remembers = true) {
    const { detail } = this;
    const wasOpen = this.chosen >= 0;
    this.chosen = this.view[place];
    if (this.cursor !== place) this.moveTo(place);
    this.draw(true);
    this.table.setAttribute("aria-activedescendant", `${this.root.id}-row-${this.chosen}`);
    this.showDetail(place);
    detail.hidden = false;
    if (remembers) this.remember(!wasOpen);
    if (reveal && detail.getBoundingClientRect().top > innerHeight * 0.75) {
      detail.scrollIntoView({ block: "start" });
      detail.focus({ preventScroll: true });
    }
  }

  close() {
    this.chosen = -1;
    this.detail.hidden = true;
    this.draw(true);
  }

  // On a narrow screen, the table may have been scrolled out of view.
  backToTable() {
    this.close();
    this.remember(true);
    this.table.focus({ preventScroll: true });
    this.scroller.scrollIntoView({ block: "nearest" });
  }

  // Shows everything about an example.
  showDetail(place) {
    const row = this.view[place];
    const { columns, texts, names, scores, groups } = this.data;
    const searched = terms(this.filters.wanted.search);
    const list = make("dl");
    const add = (name, text, kind, other) => {
      const shown = make("dd", undefined, kind);
      shown.dir = "auto";
      shown.lang = "";
      if (other !== undefined && !searched.length) appendChanged(shown, changedWords(text, other));
      else mark(shown, text, searched);
      list.append(make("dt", visible(name)), shown);
    };
    const named = new Map();
    for (let i = 0; i < texts[row].length; i += 2) named.set(names[texts[row][i]], this.text(texts[row][i + 1]));
    const compared = new Map((this.data.keys.get(columns.task[row]) ?? []).filter(([, other]) => other));
    for (const [name, text] of named) add(name, text, name === "error" ? "error" : "", named.get(compared.get(name)));
    const labels = [];
    for (const group of groups) {
      if (group.values[row] >= 0) labels.push(`${group.name}: ${this.text(group.values[row])}`);
    }
    if (labels.length) add("groups", visible(labels.join("\n")), "numbers");
    const title = make("h3");
    mark(title, this.text(columns.id[row]), searched);
    const about = [columns.task, columns.run, columns.state].map((column) => this.text(column[row])).join(" · ");
    const scoreList = make("ul", undefined, "given");
    for (const { name, values } of scores) {
      if (!Number.isNaN(values[row])) scoreList.append(make("li", `${visible(name)} ${rounded(values[row])}`));
    }
    this.detail.replaceChildren(this.buttons(place), title, make("p", about, "about"), scoreList, list);
    this.detail.scrollTop = 0;
  }

  buttons(place) {
    const bar = make("div", undefined, "steps");
    const add = (text, label, action, disabled = false) => {
      const button = make("button", text);
      button.type = "button";
      button.disabled = disabled;
      button.setAttribute("aria-label", label);
      button.addEventListener("click", action);
      bar.append(button);
    };
    add("‹", "previous example", () => this.choose(place - 1, false), place === 0);
    add("›", "next example", () => this.choose(place + 1, false), place === this.view.length - 1);
    add("close", "close the example", () => this.backToTable());
    return bar;
  }
}

// Appends words to an element; those that were changed are bold and underlined.
function appendChanged(element, words) {
  for (const [word, changed] of words) element.append(changed ? make("b", word, "changed") : word);
}

// Whether a key press is meant for a field or for the web browser itself, and not for the page.
function isTyping({ target, ctrlKey, metaKey, altKey }) {
  return ctrlKey || metaKey || altKey || target.matches?.("input, select, textarea, [contenteditable]");
}

// Reserves space for the table and controls at once, so that nothing moves when they appear.
function makeRoom(root, wanted) {
  root.classList.toggle("waiting", wanted);
  for (const part of root.querySelectorAll(".controls, .panes, .keys")) part.hidden = !wanted;
}

async function open(root) {
  if (root.dataset.ready) return;
  root.dataset.ready = "false";
  makeRoom(root, true);
  const count = root.querySelector(".count");
  const source = root.querySelector('script[type="application/gzip"]');
  const total = count.textContent; // "1,234 examples"
  if (!("DecompressionStream" in window)) {
    makeRoom(root, false);
    count.textContent = `${total}: this browser is too old to unpack them. To write them to a file: lmassay export RUN --format csv -o rows.csv`;
    return;
  }
  count.textContent = `${total}: loading …`;
  try {
    new Browser(root, await read(await unpack(source.textContent)));
    root.classList.remove("waiting");
    root.dataset.ready = "true";
    source.remove();
  } catch (error) {
    makeRoom(root, false);
    count.textContent = `The examples cannot be read (${error.message}). Is the file complete?`;
  }
}

// The examples are read only when the reader opens their section, so a page with many examples opens quickly.
for (const root of document.querySelectorAll("section.browser")) {
  const section = root.querySelector("details.section");
  if (section.open) open(root);
  section.addEventListener("toggle", () => section.open && open(root));
}

document.addEventListener("keydown", (event) => {
  const root = document.querySelector("section.browser");
  if (event.key !== "/" || isTyping(event) || !root) return;
  event.preventDefault();
  root.querySelector("details.section").open = true;
  root.scrollIntoView({ block: "nearest" });
  const search = root.querySelector("[name=search]");
  // While the examples are loading, the search field is hidden and cannot have the focus, so try again later.
  const focus = () => {
    if (root.classList.contains("waiting") || !root.dataset.ready) setTimeout(focus, 50);
    else search.focus();
  };
  focus();
});
