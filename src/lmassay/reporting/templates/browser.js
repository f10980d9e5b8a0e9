// The example browser. The document contains only the rows in view. Everything that comes from data is inserted as text,
// never as markup.

const SPARE = 8; // rows that are drawn above and below those in view
const UNSORTED = { column: null, down: false };

function widthOf({ kind, title }) {
  const column = make("col", undefined, kind);
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
    this.chosen = -1; // a row of the data
    this.height = 34;
    this.from = -1;
    this.makeColumns();
    this.listen();
    this.refresh();
    // Sorting texts takes longest, so it is done before the reader asks for it.
    for (const column of [this.id, this.first]) whenIdle(() => this.order(column));
  }

  makeColumns() {
    const { columns, texts, scores } = this.data;
    const column = (kind, of, title = kind) => {
      const tasks = new Set();
      const has = of instanceof Float64Array ? (value) => !Number.isNaN(value) : (value) => value >= 0;
      of.forEach((value, row) => has(value) && tasks.add(columns.task[row]));
      return { kind, of, title, tasks };
    };
    const first = Int32Array.from(texts, (of) => (of.length ? of[1] : -1));
    this.id = column("id", columns.id);
    this.first = { ...column("text", first), skip: sharedBeginnings(this.data, first) };
    this.answer = column("answer", this.answers());
    this.run = column("run", columns.run);
    this.state = column("state", columns.state);
    this.scores = scores.map(({ name, of }) => column("score", of, name));
  }

  // The text called "answer" or "answer (length)".
  answers() {
    const { names, texts } = this.data;
    const isAnswer = names.map((name) => /^answer( \(|$)/.test(name));
    return Int32Array.from(texts, (of) => {
      // Names and texts take turns.
      for (let i = 0; i < of.length; i += 2) if (isAnswer[of[i]]) return of[i + 1];
      return -1;
    });
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
      });
    });
    this.form.addEventListener("input", (event) => {
      clearTimeout(timer);
      if (event.target.name === "search") {
        // Wait until the reader stops typing.
        timer = setTimeout(() => this.refresh(), 60);
      } else {
        this.filters.follow(event.target.name);
        this.refresh();
      }
    });
    let frame = 0;
    const later = (redraw) => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => this.draw(redraw));
    };
    this.scroller.addEventListener("scroll", () => later(false), { passive: true });
    new ResizeObserver(() => later(true)).observe(this.scroller);
    this.table.addEventListener("keydown", (event) => this.onKey(event));
    this.table.tBodies[0].addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-place]");
      if (row) this.choose(Number(row.dataset.place), true);
    });
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
    if (this.view.length) status += "; click a row for details";
    this.count.textContent = status;
    this.table.setAttribute("aria-rowcount", this.view.length + 1);
    this.drawHeads();
    this.scroller.scrollTop = 0;
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

  // Only scores of the evaluations that are in view, and no column that is the same in every row.
  pickColumns() {
    const { task, run, state } = this.filters.wanted;
    const { columns } = this.data;
    let within = task === "" ? -1 : Number(task);
    if (run !== "") within = columns.task[columns.run.indexOf(Number(run))];
    const measured = (column) => column.tasks.size && (within < 0 || column.tasks.has(within));
    this.columns = [this.id, this.first, ...[this.answer].filter(measured)];
    if (run === "" && this.filters.has("run")) this.columns.push(this.run);
    if (state === "" && this.filters.has("state")) this.columns.push(this.state);
    this.columns.push(...this.scores.filter(measured));
  }

  // Clicks on a header sort in ascending order, then in descending order, then not at all.
  sortBy(column) {
    if (this.sort.column !== column) this.sort = { column, down: false };
    else this.sort = this.sort.down ? UNSORTED : { column, down: true };
    this.refresh();
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
    const of = this.view[place];
    const row = make("tr");
    row.id = `${this.root.id}-row-${of}`;
    row.dataset.place = place;
    row.setAttribute("aria-rowindex", place + 2);
    row.setAttribute("aria-selected", String(of === this.chosen));
    for (const column of this.columns) {
      const cell = make(column.kind === "id" ? "th" : "td", this.inShort(column, column.of[of]), column.kind);
      if (column.kind === "id") cell.scope = "row";
      row.append(cell);
    }
    if (this.text(this.state.of[of]) === "error") row.className = "failed";
    return row;
  }

  inShort(column, value) {
    if (column.kind === "score") return rounded(value);
    const from = column.skip?.get(value) ?? 0;
    const text = this.text(value).slice(from, from + 160).replace(/\s+/g, " ");
    return from ? `… ${text}` : text;
  }

  onKey(event) {
    if (event.target !== this.table || event.ctrlKey || event.metaKey || event.altKey || !this.view.length) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 2);
    const now = this.view.indexOf(this.chosen);
    const last = this.view.length - 1;
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, PageDown: now + page, PageUp: now - page, Home: 0, End: last }[event.key];
    if (event.key === "Escape" && now >= 0) this.close();
    if (to === undefined) return;
    event.preventDefault();
    this.choose(Math.min(last, Math.max(0, to)), false);
  }

  choose(place, reveal) {
    const { scroller, detail } = this;
    this.chosen = this.view[place];
    const top = place * this.height;
    const bottom = top + this.height + this.table.tHead.getBoundingClientRect().height;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (bottom > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = bottom - scroller.clientHeight;
    this.draw(true);
    this.table.setAttribute("aria-activedescendant", `${this.root.id}-row-${this.chosen}`);
    this.showDetail(this.chosen);
    detail.hidden = false;
    // On a narrow screen, the example is below the table.
    if (reveal && detail.getBoundingClientRect().top > innerHeight * 0.75) detail.scrollIntoView({ block: "start" });
  }

  close() {
    this.chosen = -1;
    this.detail.hidden = true;
    this.table.removeAttribute("aria-activedescendant");
    this.draw(true);
  }

  // On a narrow screen, the table may have been scrolled out of view.
  backToTable() {
    this.close();
    this.table.focus({ preventScroll: true });
    this.scroller.scrollIntoView({ block: "nearest" });
  }

  // Show everything about an example.
  showDetail(row) {
    const { columns, texts, names, scores, groups } = this.data;
    const searched = terms(this.filters.wanted.search);
    const list = make("dl");
    const add = (name, text, kind) => {
      const shown = make("dd", undefined, kind);
      shown.dir = "auto";
      mark(shown, text, searched);
      list.append(make("dt", visible(name)), shown);
    };
    for (let i = 0; i < texts[row].length; i += 2) {
      const name = names[texts[row][i]];
      add(name, this.text(texts[row][i + 1]), name === "error" ? "error" : "");
    }
    const within = groups.filter((group) => group.of[row] >= 0).map((group) => `${group.name}: ${this.text(group.of[row])}`);
    if (within.length) add("groups", visible(within.join("\n")), "numbers");
    const title = make("h3");
    mark(title, this.text(columns.id[row]), searched);
    const about = [columns.task, columns.run, columns.state].map((column) => this.text(column[row])).join(" · ");
    const given = make("ul", undefined, "given");
    for (const { name, of } of scores) if (!Number.isNaN(of[row])) given.append(make("li", `${visible(name)} ${rounded(of[row])}`));
    const button = make("button", "close");
    button.type = "button";
    button.addEventListener("click", () => this.backToTable());
    this.detail.replaceChildren(button, title, make("p", about, "about"), given, list);
    this.detail.scrollTop = 0;
  }
}

// Space for the table and controls is reserved at once, so that nothing moves when they appear.
function makeRoom(root, wanted) {
  root.classList.toggle("waiting", wanted);
  for (const part of root.querySelectorAll(".controls, .panes")) part.hidden = !wanted;
}

async function open(root) {
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

// The examples are read only when the reader scrolls near them, so a page with many examples opens as fast as one without.
const near = new IntersectionObserver(
  (entries) => {
    for (const entry of entries.filter((e) => e.isIntersecting)) {
      near.unobserve(entry.target);
      open(entry.target);
    }
  },
  { rootMargin: "1000px" },
);
for (const root of document.querySelectorAll("section.browser")) {
  makeRoom(root, true);
  near.observe(root);
}
