"use strict";
// Sort, filter and unfold the lists of the report. Without this script everything is there, unfolded and in its order.
document.documentElement.classList.add("js");

function sortValue(cell) {
  const value = cell.dataset.value;
  if (value === undefined) return cell.textContent.trim().toLowerCase();
  if (value === "") return null;
  const number = Number(value);
  return Number.isNaN(number) ? value.toLowerCase() : number;
}

// What is missing comes last, whichever way the rest is sorted.
function compare(a, b, way) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return way * (a - b);
  return way * String(a).localeCompare(String(b), undefined, { numeric: true });
}

function setUp(list) {
  const items = Array.from(list.querySelectorAll("[data-item]"));
  const home = items.length ? items[0].parentElement : null;
  const texts = items.map((item) => item.textContent.toLowerCase());
  const words = list.querySelector("[data-words]");
  const label = list.querySelector("[data-label]");
  const order = list.querySelector("[data-order]");
  const shown = list.querySelector("[data-shown]");
  const more = list.querySelector("[data-more]");
  const heads = Array.from(list.querySelectorAll("th[aria-sort]"));
  const first = Number(list.dataset.first) || 10;
  let all = false;

  function show() {
    const wanted = words ? words.value.trim().toLowerCase().split(/\s+/).filter(Boolean) : [];
    const chosen = label ? label.value : "";
    const fitting = new Set(items.filter((item, place) =>
      (!chosen || item.dataset.labels.split(" ").includes(chosen)) && wanted.every((word) => texts[place].includes(word))));
    const inOrder = home ? Array.from(home.children).filter((item) => fitting.has(item)) : [];
    for (const item of items) item.hidden = true;
    const limit = all ? inOrder.length : Math.min(first, inOrder.length);
    inOrder.forEach((item, place) => {
      item.hidden = place >= limit;
      item.toggleAttribute("data-later", place >= limit);
    });
    for (const item of items) if (!fitting.has(item)) item.removeAttribute("data-later");
    if (shown) shown.textContent = `Showing ${limit} of ${inOrder.length}` + (inOrder.length < items.length ? ` that fit, ${items.length} in all` : "");
    if (more) {
      more.hidden = inOrder.length <= first;
      more.textContent = all ? `Show the first ${first} only` : `Show all ${inOrder.length}`;
      more.setAttribute("aria-expanded", String(all));
    }
  }

  function sortBy(head, way) {
    const place = Array.from(head.parentElement.children).indexOf(head);
    const rows = Array.from(home.children);
    const keys = new Map(rows.map((row) => [row, sortValue(row.children[place])]));
    rows.sort((a, b) => compare(keys.get(a), keys.get(b), way));
    home.append(...rows);
    for (const other of heads) other.setAttribute("aria-sort", other === head ? (way > 0 ? "ascending" : "descending") : "none");
    show();
  }

  heads.forEach((head, place) => {
    head.querySelector("button").addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const usual = head.dataset.first === "descending" ? -1 : 1;
      sortBy(head, now === "none" ? usual : now === "ascending" ? -1 : 1);
    });
    if (order) {
      for (const [way, sign] of [["ascending", "▲"], ["descending", "▼"]]) {
        order.add(new Option(`${head.textContent.trim()} ${sign}`, `${place} ${way}`));
      }
    }
  });
  if (order) {
    order.addEventListener("change", () => {
      if (!order.value) return;
      const [place, way] = order.value.split(" ");
      sortBy(heads[Number(place)], way === "ascending" ? 1 : -1);
    });
  }
  if (words) words.addEventListener("input", show);
  if (label) label.addEventListener("change", show);
  if (more) more.addEventListener("click", () => { all = !all; show(); });
  show();
}

for (const list of document.querySelectorAll("[data-list]")) setUp(list);

// On paper there is nothing to click.
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = Array.from(document.querySelectorAll("details:not([open])"));
  for (const one of closed) one.open = true;
});
window.addEventListener("afterprint", () => {
  for (const one of closed) one.open = false;
});
