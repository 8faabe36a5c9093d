// Everything works without this file, as plain forms. With it answers appear without loading the page again.
"use strict";

const PART = { headers: { "X-Part": "1" } };

function parsed(html) {
  // What comes from the server is escaped there; scripts in it would not run, and may not by the page's policy.
  return [...new DOMParser().parseFromString(html, "text/html").body.childNodes];
}

const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

// Asking

const form = document.getElementById("ask");
const region = document.getElementById("answer");
let asking = null;

function asked() {
  // Fields of the form as an address of this page, so that an answer can be kept, shared and gone back to.
  const fields = new FormData(form);
  const file = fields.get("image");
  if (file instanceof File && file.size) {
    return { address: "/answer", options: { method: "POST", body: fields }, shown: null };
  }
  fields.delete("image");
  const search = new URLSearchParams();
  for (const [name, value] of fields) {
    if (typeof value === "string" && (name !== "row" || value)) search.append(name, value);
  }
  return { address: `/answer?${search}`, options: {}, shown: `/?${search}` };
}

async function ask() {
  const { address, options, shown } = asked();
  asking?.abort();
  const mine = (asking = new AbortController());
  region.setAttribute("aria-busy", "true");
  try {
    for (;;) {
      while (document.getElementById("state")?.dataset.state === "warming up") {
        await wait(0.3);
        if (mine.signal.aborted) return;
      }
      const response = await fetch(address, { ...options, ...PART, signal: mine.signal });
      const html = await response.text();
      if (mine.signal.aborted) return;
      region.replaceChildren(...parsed(html));
      if (response.status !== 503) {
        if (response.ok && shown) history.pushState(null, "", shown);
        return;
      }
      await wait(Number(response.headers.get("Retry-After")) || 2);
      if (mine.signal.aborted) return;
    }
  } catch (error) {
    if (error.name !== "AbortError") {
      const message = document.createElement("p");
      message.className = "problem";
      message.setAttribute("role", "alert");
      message.textContent = "The server does not respond. Is turnover serve still running?";
      region.replaceChildren(message);
    }
  } finally {
    if (asking === mine) region.removeAttribute("aria-busy");
  }
}

if (form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  form.querySelector("textarea")?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.addEventListener("change", (event) => {
    const element = event.target;
    const row = form.elements.row;
    if (element.name === "image" && element.files.length) {
      if (row) row.value = "";
      form.requestSubmit();
    } else if (element.name === "row" && form.elements.image) {
      form.elements.image.value = "";
    } else if (element.hasAttribute("data-ask") && form.checkValidity() && region.childElementCount) {
      form.requestSubmit();
    }
  });
  addEventListener("popstate", () => location.reload());
}

document.querySelectorAll("[data-go]").forEach((element) => {
  element.addEventListener("change", () => element.form.requestSubmit());
});

// Marking

document.addEventListener("submit", async (event) => {
  const sent = event.target;
  if (!sent.classList.contains("mark")) return;
  event.preventDefault();
  const fields = new FormData(sent, event.submitter);
  const row = fields.get("row");
  const response = await fetch("/marks", { method: "POST", body: fields, ...PART });
  const html = await response.text();
  const boxes = document.querySelectorAll(`.mark-state[data-row="${CSS.escape(row)}"]`);
  if (!response.ok) {
    sent.append(...parsed(html));
    return;
  }
  const own = sent.closest(".mark-state");
  boxes.forEach((box) => {
    const fresh = parsed(html).find((node) => node.nodeType === Node.ELEMENT_NODE);
    box.replaceWith(fresh);
    document.querySelectorAll("[data-marks]").forEach((count) => (count.textContent = fresh.dataset.count));
    if (box === own) fresh.querySelector("button, summary")?.focus();
  });
});

// Warming up

async function watchState() {
  let state = document.getElementById("state");
  while (state?.dataset.state === "warming up") {
    await wait(1);
    try {
      const response = await fetch("/state", PART);
      const fresh = parsed(await response.text()).find((node) => node.nodeType === Node.ELEMENT_NODE);
      if (fresh.dataset.state === "ready" && form && !asking && !document.getElementById("text")?.value) {
        location.reload();
        return;
      }
      if (fresh.textContent !== state.textContent) state.replaceWith(fresh);
      state = document.getElementById("state");
    } catch {
      state.dataset.state = "gone";
    }
  }
}
watchState();
