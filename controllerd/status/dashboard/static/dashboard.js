// Keeps the page right without reloading it: asks the server for the page again when something happens, and puts what
// is new into its place. Everything that is shown was written, and escaped, by the server; only the lines of events are
// made here, as text.
"use strict";

(() => {
  const REFRESH_MS = 2_000; // an answer that nothing has changed costs next to nothing
  const SETTLE_MS = 400; // after something happened; more of it usually follows at once
  const ANSWER_MS = 5_000; // a daemon that hangs takes the question, and never answers
  const RETRY_MS = [1_000, 2_000, 5_000, 10_000];
  const TOKEN = "controllerd-token";
  const THEME = "controllerd-theme";
  const root = document.documentElement;
  const find = (selector, within = document) => within.querySelector(selector);
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  const stored = localStorage.getItem(THEME);
  if (stored) root.dataset.theme = stored;
  root.classList.add("js");

  let tag = "";
  let skewMs = 0; // the server's clock against ours
  let answeredAt = Date.now();
  let asking = null; // the question that is under way
  let isWanted = false;
  let timer = 0;

  function headers(more = {}) {
    const token = sessionStorage.getItem(TOKEN);
    return token ? { ...more, Authorization: `Bearer ${token}` } : more;
  }

  // -- the page ------------------------------------------------------------------------------------------------------

  /** `anew`: whatever is known of the page already, it is about something else now. */
  async function refresh({ anew = false } = {}) {
    if (asking && !anew) {
      isWanted = true;
      return;
    }
    while (asking) await asking;
    asking = ask(anew);
    await asking;
    asking = null;
    if (isWanted) soon();
    isWanted = false;
  }

  async function ask(anew) {
    try {
      const asked = anew || !tag ? {} : { "If-None-Match": tag };
      const [told, signal] = [headers({ Accept: "text/html", ...asked }), AbortSignal.timeout(ANSWER_MS)];
      const answer = await fetch(location.pathname + location.search, { headers: told, cache: "no-store", signal });
      answeredAt = Date.now();
      if (answer.status === 401) return locked();
      if (answer.ok) take(new DOMParser().parseFromString(await answer.text(), "text/html"));
      connected(answer.ok || answer.status === 304 ? "" : `controllerd answers with ${answer.status}`);
    } catch {
      connected("controllerd does not answer");
    }
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(refresh, SETTLE_MS);
  }

  function take(fresh) {
    const wasLocked = find("#locked") !== null;
    document.title = fresh.title;
    document.body.dataset.tag = fresh.body.dataset.tag ?? "";
    document.body.dataset.now = fresh.body.dataset.now ?? "";
    if (wasLocked !== (find("#locked", fresh) !== null)) document.body.replaceWith(document.adoptNode(fresh.body));
    else morph(document.body, fresh.body);
    begin();
  }

  /** Make a node like another one, keeping what did not change: focus, what is open, what is being read. */
  function morph(node, fresh) {
    if (node.nodeType !== fresh.nodeType || node.nodeName !== fresh.nodeName || node.id !== fresh.id) {
      node.replaceWith(document.importNode(fresh, true));
    } else if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.data !== fresh.data) node.data = fresh.data;
    } else if (!("own" in node.dataset)) {
      if (!("kept" in node.dataset)) attributes(node, fresh);
      children(node, fresh);
    }
  }

  function attributes(node, fresh) {
    for (const { name, value } of fresh.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
    for (const { name } of [...node.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === "open" && node.localName === "details")) node.removeAttribute(name);
    }
  }

  function children(node, fresh) {
    if ("since" in node.dataset || "kept" in node.dataset) return;
    const [mine, theirs] = [[...node.childNodes], [...fresh.childNodes]];
    theirs.forEach((child, at) => {
      if (at < mine.length) morph(mine[at], child);
      else node.append(document.importNode(child, true));
    });
    mine.slice(theirs.length).forEach((child) => child.remove());
  }

  function connected(trouble) {
    const line = find("#connection");
    if (!line) return;
    const at = new Date(answeredAt + skewMs).toISOString().slice(11, 19);
    const text = trouble ? `${trouble}: what is shown is of ${at} UTC` : "";
    if (line.textContent !== text) line.textContent = text;
    root.classList.toggle("stale", trouble !== "");
  }

  function span(seconds) {
    let left = Math.max(Math.floor(seconds), 0);
    const parts = [];
    for (const [unit, size] of [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]]) {
      const number = Math.floor(left / size);
      left %= size;
      if (number || parts.length || unit === "s") parts.push(`${number}${unit}`);
    }
    return parts.slice(0, 2).join("");
  }

  /** The time of day, as the server writes it: with the date where that is not today's. Times are UTC. */
  function timeOfDay(at) {
    const today = new Date(Date.now() + skewMs).toISOString().slice(0, 10);
    return at.startsWith(today) ? at.slice(11, 19) : `${at.slice(5, 10)} ${at.slice(11, 19)}`;
  }

  function tick() {
    for (const time of document.querySelectorAll("[data-since]")) {
      const text = span((Date.now() + skewMs - Number(time.dataset.since)) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  }

  function begin() {
    tag = document.body.dataset.tag ?? "";
    if (document.body.dataset.now) skewMs = Number(document.body.dataset.now) - Date.now();
    showTheme();
    tick();
    const feed = find("#feed");
    if (feed && !feed.dataset.followed) {
      feed.dataset.followed = "yes";
      follow(feed);
    }
  }

  // -- where to go ---------------------------------------------------------------------------------------------------

  async function go(address, { back = false } = {}) {
    const url = new URL(address, location.href);
    const isOther = url.search !== location.search;
    if (!back) history.pushState(null, "", url);
    if (isOther || back) await refresh({ anew: true });
    const target = url.hash ? find(url.hash) : null;
    target?.focus({ preventScroll: true });
    target?.scrollIntoView({ block: "start" });
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-go]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      go(link.href);
    }
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button.dataset.copy);
    if (event.target.closest("#theme")) chooseTheme();
  });

  document.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.target.id === "search") go(`/?${new URLSearchParams({ why: find("#subject").value.trim() })}#why`);
    if (event.target.id === "login") login();
  });

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      find("#subject")?.select();
      find("#subject")?.focus();
    }
  });

  addEventListener("popstate", () => go(location.href, { back: true }));
  document.addEventListener("visibilitychange", () => document.hidden || refresh());

  // -- copying, colours, tokens --------------------------------------------------------------------------------------

  async function copy(text) {
    let told = `Copied: ${text}`;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      told = text; // no clipboard without TLS, or it was not allowed: then it can be copied from here
    }
    const line = find("#told");
    line.textContent = told;
    line.classList.add("shown");
    clearTimeout(copy.timer);
    copy.timer = setTimeout(() => line.classList.remove("shown"), 6_000);
  }

  function isDark() {
    const chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function showTheme() {
    find("#theme")?.setAttribute("aria-pressed", String(isDark()));
  }

  function chooseTheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem(THEME, root.dataset.theme);
    showTheme();
  }

  async function login() {
    sessionStorage.setItem(TOKEN, find("#token").value.trim());
    await refresh({ anew: true });
  }

  function locked() {
    sessionStorage.removeItem(TOKEN);
    const line = find("#login-answer");
    if (line) line.textContent = "This token is not one of ours.";
    else location.reload();
  }

  // -- what happens --------------------------------------------------------------------------------------------------

  async function follow(feed) {
    const [list, state, button, kinds] = ["#happenings", "#feed-state", "#pause", "#kinds"].map((id) => find(id, feed));
    const most = Number(feed.dataset.most);
    let last = feed.dataset.last;
    let held = []; // what came while the list stands still
    let isPaused = false;
    let aborting = new AbortController();
    let silence = 0;

    /** There are signs of life even when nothing happens: without any, nobody is there any more. */
    function heard() {
      clearTimeout(silence);
      silence = setTimeout(() => aborting.abort(new Error("nothing was heard for long")), Number(feed.dataset.quiet));
    }

    function line(happening) {
      const item = document.createElement("li");
      item.dataset.kind = happening.kind;
      const time = document.createElement("time");
      time.dateTime = time.title = happening.at;
      time.textContent = timeOfDay(happening.at);
      const [kind, summary] = ["kind", "summary"].map((name) => {
        const part = document.createElement("span");
        part.className = name;
        return part;
      });
      kind.textContent = happening.kind.replaceAll("_", " ");
      summary.textContent = happening.summary;
      item.append(time, " ", kind, " ", summary);
      return item;
    }

    function show(happenings) {
      if (happenings.length) find(".none", list)?.remove();
      for (const happening of happenings) list.prepend(line(happening));
      while (list.children.length > most) list.lastElementChild.remove();
    }

    function happened(happening) {
      if (isPaused) held = [...held, happening].slice(-most);
      else show([happening]);
      if (isPaused) state.textContent = `paused, ${held.length} new`;
      soon();
    }

    async function listAnew() {
      const query = new URLSearchParams({ kind: kinds.value, limit: String(most) });
      const answer = await fetch(`/v1/events?${query}`, { headers: headers({ Accept: "application/json" }) });
      if (!answer.ok) return;
      const { items } = await answer.json();
      list.replaceChildren();
      held = [];
      show(items);
      if (items.length) last = items.at(-1).id;
    }

    function told(block) {
      const fields = {};
      for (const text of block.split("\n")) {
        const at = text.indexOf(":");
        if (at > 0) fields[text.slice(0, at)] = text.slice(at + 1).trimStart();
      }
      if (fields.id) last = fields.id;
      if (fields.event === "gap") listAnew().then(soon);
      else if (fields.data) happened(JSON.parse(fields.data));
    }

    async function read() {
      const asked = headers({ Accept: "text/event-stream", "Last-Event-ID": last });
      const query = new URLSearchParams({ kind: kinds.value });
      heard();
      const answer = await fetch(`/v1/events?${query}`, { headers: asked, signal: aborting.signal });
      if (!answer.ok) throw new Error(String(answer.status));
      state.textContent = isPaused ? state.textContent : "live";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ; ) {
        const { done, value } = await reader.read();
        if (done) return;
        heard();
        const blocks = (text + value).split("\n\n");
        text = blocks.pop();
        blocks.forEach(told);
      }
    }

    button.addEventListener("click", () => {
      isPaused = !isPaused;
      button.setAttribute("aria-pressed", String(isPaused));
      button.textContent = isPaused ? "Go on" : "Pause";
      state.textContent = isPaused ? "paused" : "live";
      if (!isPaused) show(held.splice(0));
    });

    kinds.addEventListener("change", async () => {
      await listAnew();
      aborting.abort();
    });

    document.addEventListener("visibilitychange", () => document.hidden && aborting.abort());

    /** A browser has few connections for all of its tabs: one that nobody sees takes none. */
    async function seen() {
      if (document.hidden && !isPaused) state.textContent = "resting";
      while (document.hidden) await new Promise((go) => document.addEventListener("visibilitychange", go, { once: true }));
    }

    for (let failed = 0; feed.isConnected; ) {
      await seen();
      aborting = new AbortController();
      try {
        await read();
        failed = 0;
      } catch (error) {
        clearTimeout(silence);
        if (error.name === "AbortError") continue;
        state.textContent = "interrupted";
        failed += 1;
      }
      await pause(RETRY_MS[Math.min(failed, RETRY_MS.length - 1)]);
    }
  }

  // -- the beginning -------------------------------------------------------------------------------------------------

  document.addEventListener("DOMContentLoaded", () => {
    begin();
    if (find("#locked") && sessionStorage.getItem(TOKEN)) refresh({ anew: true });
    setInterval(() => document.hidden || find("#locked") || refresh(), REFRESH_MS);
    setInterval(tick, 1_000);
    if (location.hash) find(location.hash)?.focus({ preventScroll: true });
  });
})();
