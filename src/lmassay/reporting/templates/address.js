// The state of the example browser in the part of the address after "#": examples?run=…&state=error&search=winter&row=12.
// It has the names of runs and examples, not their numbers, so that a link still works if the page is written again with
// other runs.

const FILTERS = ["task", "run", "state", "kind", "value", "search"];

function parameters(root) {
  const [place, query = ""] = location.hash.slice(1).split("?");
  return place === root.id ? new URLSearchParams(query) : null;
}

// With "push", the address becomes a new entry of the browser's history, to which the Back button returns; without it, the
// current entry is replaced.
function remember(root, chosen, push) {
  const query = new URLSearchParams(chosen).toString();
  const hash = `#${root.id}${query ? `?${query}` : ""}`;
  if (hash === location.hash) return;
  try {
    history[push ? "pushState" : "replaceState"](null, "", hash);
  } catch {
    // A page that is embedded in another one must not change its address; then its state cannot be linked to.
  }
}
