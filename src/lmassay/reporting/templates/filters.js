// The controls above the table, and which rows they select.

const MAX_VALUES = 500; // a group with more values is not offered as a filter

class Filters {
  constructor(form, data) {
    this.controls = form.elements;
    this.data = data;
    this.searched = new Map();
    this.kinds = data.groups.filter((group) => {
      const count = new Set(group.values).size;
      return count > 1 && count <= MAX_VALUES;
    });
    this.offer("task", data.columns.task, "all");
    // Evaluations have different scores, so only the first evaluation is shown at first.
    if (this.has("task")) this.controls.task.selectedIndex = 1;
    this.offer("state", data.columns.state, "all");
    this.offerRuns();
    this.offerKinds();
  }

  get wanted() {
    return Object.fromEntries(FILTERS.map((name) => [name, this.controls[name].value]));
  }

  // The chosen values as texts, for the address. The first evaluation is the default, so it is left out of the address.
  get chosen() {
    const chosen = {};
    for (const name of FILTERS) {
      const { value } = this.controls[name];
      if (value !== "") chosen[name] = this.textOf(name, value);
    }
    if (this.has("task")) {
      if (this.controls.task.selectedIndex === 1) delete chosen.task;
      else if (!chosen.task && !chosen.run) chosen.task = "";
    }
    return chosen;
  }

  textOf(name, value) {
    if (name === "search") return value;
    return name === "kind" ? this.data.groups[Number(value)].name : this.data.strings[Number(value)];
  }

  // Sets the controls as an address says. Values that this page does not have are ignored.
  restore(parameters) {
    const first = this.has("task") && !parameters.has("run") ? 1 : 0;
    this.controls.task.selectedIndex = Math.min(first, this.controls.task.length - 1);
    for (const name of FILTERS) {
      const control = this.controls[name];
      if (name === "search") control.value = parameters.get(name) ?? "";
      else {
        const isWanted = ({ value }) => value !== "" && this.textOf(name, value) === parameters.get(name);
        const option = [...control.options].find(isWanted);
        if (option) control.value = option.value;
        else if (name !== "task" || parameters.get(name) === "") control.value = "";
        this.follow(name === "state" ? "" : name);
      }
    }
  }

  // Whether a control offers a choice; its first option means "all", so it takes at least three options.
  has(name) {
    return this.controls[name].length > 2;
  }

  // The options of a control depend on the controls before it.
  follow(changed) {
    if (changed === "task" || changed === "all") this.offerRuns();
    if (changed !== "state" && changed !== "value") this.offerKinds();
  }

  // Fills a control with the values of a column, each with the number of its rows.
  offer(name, column, all) {
    const select = this.controls[name];
    const before = select.value;
    const counts = new Map();
    for (const value of column) if (value >= 0) counts.set(value, (counts.get(value) || 0) + 1);
    const options = [new Option(all, "")];
    for (const [value, rows] of counts) {
      const text = visible(this.data.strings[value]) || "(empty)";
      options.push(new Option(`${text} (${counted(rows)})`, value));
    }
    select.replaceChildren(...options);
    select.value = before !== "" && counts.has(Number(before)) ? before : "";
    select.closest("label").hidden = counts.size < 2;
  }

  offerRuns() {
    const { task } = this.wanted;
    const { run, task: tasks } = this.data.columns;
    this.offer("run", task === "" ? run : run.filter((_, row) => tasks[row] === Number(task)), "all");
  }

  // Offers the kinds of groups in which rows of the chosen evaluation and run differ, and the values of the chosen kind.
  offerKinds() {
    const { kind: select, value } = this.controls;
    const { task, run, kind: before } = this.wanted;
    const rows = this.rows({ task, run });
    const useful = this.kinds.filter((group) => {
      const labels = group.values.filter((label, row) => rows[row] && label >= 0);
      return new Set(labels).size > 1;
    });
    const numbers = useful.map((group) => String(this.data.groups.indexOf(group)));
    const options = useful.map((group, place) => new Option(visible(group.name), numbers[place]));
    select.replaceChildren(new Option("any", ""), ...options);
    select.value = numbers.includes(before) ? before : "";
    select.closest("label").hidden = !useful.length;
    const chosen = select.value !== "";
    if (chosen) this.offer("value", this.data.groups[Number(select.value)].values.filter((_, row) => rows[row]), "any");
    else value.replaceChildren(new Option("any", ""));
    value.closest("label").hidden = !chosen;
  }

  // Returns 1 for each row that passes all filters, otherwise 0.
  rows({ task = "", run = "", state = "", kind = "", value = "", search = "" } = this.wanted) {
    const rows = new Uint8Array(this.data.size).fill(1);
    const keep = (column, wanted) => {
      for (let row = 0; row < rows.length; row++) {
        if (column[row] !== wanted) rows[row] = 0;
      }
    };
    for (const [name, wanted] of Object.entries({ task, run, state })) {
      if (wanted !== "") keep(this.data.columns[name], Number(wanted));
    }
    if (kind !== "" && value !== "") keep(this.data.groups[Number(kind)].values, Number(value));
    for (const term of terms(search)) {
      const hits = this.containing(term);
      for (let row = 0; row < rows.length; row++) rows[row] &= hits[row];
    }
    return rows;
  }

  // Search results are cached, so that typing another word does not repeat the search for the first.
  containing(term) {
    if (!this.searched.has(term)) {
      if (this.searched.size > 20) this.searched.clear();
      this.searched.set(term, containing(this.data, term));
    }
    return this.searched.get(term);
  }
}
