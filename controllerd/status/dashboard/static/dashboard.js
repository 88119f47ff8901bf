// Updates the page without reloading it: requests the page again when something happens, and replaces the parts that
// changed. The server renders and escapes all content, except for the lines of events, which are made here as text.
"use strict";

(() => {
  const REFRESH_MS = 2_000; // a 304 response costs almost nothing
  const SETTLE_MS = 400; // wait after an event, as more events usually follow at once
  const ANSWER_MS = 5_000; // a daemon that hangs accepts the request and never answers
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
  let skewMs = 0; // the server's clock minus ours
  let answeredAt = Date.now();
  let pending = null; // the request under way
  let isWanted = false;
  let timer = 0;

  function headers(more = {}) {
    const token = sessionStorage.getItem(TOKEN);
    return token ? { ...more, Authorization: `Bearer ${token}` } : more;
  }

  // -- the page ------------------------------------------------------------------------------------------------------

  /** `anew`: request the page without its ETag, as the address has changed. */
  async function refresh({ anew = false } = {}) {
    if (pending && !anew) {
      isWanted = true;
      return;
    }
    while (pending) await pending;
    pending = requestPage(anew);
    await pending;
    pending = null;
    if (isWanted) refreshSoon();
    isWanted = false;
  }

  async function requestPage(anew) {
    try {
      const condition = anew || !tag ? {} : { "If-None-Match": tag };
      const [fields, signal] = [headers({ Accept: "text/html", ...condition }), AbortSignal.timeout(ANSWER_MS)];
      const answer = await fetch(location.pathname + location.search, { headers: fields, cache: "no-store", signal });
      answeredAt = Date.now();
      if (answer.status === 401) return locked();
      if (answer.ok) showPage(new DOMParser().parseFromString(await answer.text(), "text/html"));
      showConnection(answer.ok || answer.status === 304 ? "" : `controllerd answers with ${answer.status}`);
    } catch {
      showConnection("controllerd does not answer");
    }
  }

  function refreshSoon() {
    clearTimeout(timer);
    timer = setTimeout(refresh, SETTLE_MS);
  }

  function showPage(fresh) {
    const wasLocked = find("#locked") !== null;
    document.title = fresh.title;
    document.body.dataset.tag = fresh.body.dataset.tag ?? "";
    document.body.dataset.now = fresh.body.dataset.now ?? "";
    if (wasLocked !== (find("#locked", fresh) !== null)) document.body.replaceWith(document.adoptNode(fresh.body));
    else morph(document.body, fresh.body);
    begin();
  }

  /** Update a node to match a fresh one, and keep the focus, open details and the scroll position. */
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

  function showConnection(trouble) {
    const line = find("#connection");
    if (!line) return;
    const at = new Date(answeredAt + skewMs).toISOString().slice(11, 19);
    const text = trouble ? `${trouble}: this page is from ${at} UTC` : "";
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

  /** The time of day in UTC, as the server formats it: with the date unless it is today. */
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

  // -- navigation ----------------------------------------------------------------------------------------------------

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

  // -- copying, theme, tokens ----------------------------------------------------------------------------------------

  async function copy(text) {
    let message = `Copied: ${text}`;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      message = text; // no clipboard without TLS or permission: the text can be copied from the message
    }
    const line = find("#copied");
    line.textContent = message;
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
    if (line) line.textContent = "This token is wrong.";
    else location.reload();
  }

  // -- the stream of events ------------------------------------------------------------------------------------------

  async function follow(feed) {
    const [list, state, button, kinds] = ["#happenings", "#feed-state", "#pause", "#kinds"].map((id) => find(id, feed));
    const most = Number(feed.dataset.most);
    let last = feed.dataset.last;
    let held = []; // events that arrived while the list is paused
    let isPaused = false;
    let aborting = new AbortController();
    let silence = 0;

    /** Restart the time limit: the server sends heartbeats, so that a stream without any data is dead. */
    function restartLimit() {
      clearTimeout(silence);
      silence = setTimeout(() => aborting.abort(new Error("no heartbeat")), Number(feed.dataset.quiet));
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

    function receive(happening) {
      if (isPaused) held = [...held, happening].slice(-most);
      else show([happening]);
      if (isPaused) state.textContent = `paused, ${held.length} new`;
      refreshSoon();
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

    function readBlock(block) {
      const fields = {};
      for (const text of block.split("\n")) {
        const at = text.indexOf(":");
        if (at > 0) fields[text.slice(0, at)] = text.slice(at + 1).trimStart();
      }
      if (fields.id) last = fields.id;
      if (fields.event === "gap") listAnew().then(refreshSoon);
      else if (fields.data) receive(JSON.parse(fields.data));
    }

    async function read() {
      const fields = headers({ Accept: "text/event-stream", "Last-Event-ID": last });
      const query = new URLSearchParams({ kind: kinds.value });
      restartLimit();
      const answer = await fetch(`/v1/events?${query}`, { headers: fields, signal: aborting.signal });
      if (!answer.ok) throw new Error(String(answer.status));
      state.textContent = isPaused ? state.textContent : "live";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ; ) {
        const { done, value } = await reader.read();
        if (done) return;
        restartLimit();
        const blocks = (text + value).split("\n\n");
        text = blocks.pop();
        blocks.forEach(readBlock);
      }
    }

    button.addEventListener("click", () => {
      isPaused = !isPaused;
      button.setAttribute("aria-pressed", String(isPaused));
      button.textContent = isPaused ? "Resume" : "Pause";
      state.textContent = isPaused ? "paused" : "live";
      if (!isPaused) show(held.splice(0));
    });

    kinds.addEventListener("change", async () => {
      await listAnew();
      aborting.abort();
    });

    document.addEventListener("visibilitychange", () => document.hidden && aborting.abort());

    /** Wait until the tab is visible: a browser has few connections for all of its tabs, so a hidden tab uses none. */
    async function untilVisible() {
      if (document.hidden && !isPaused) state.textContent = "hidden";
      while (document.hidden) await new Promise((go) => document.addEventListener("visibilitychange", go, { once: true }));
    }

    for (let failed = 0; feed.isConnected; ) {
      await untilVisible();
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

  // -- start ---------------------------------------------------------------------------------------------------------

  document.addEventListener("DOMContentLoaded", () => {
    begin();
    if (find("#locked") && sessionStorage.getItem(TOKEN)) refresh({ anew: true });
    setInterval(() => document.hidden || find("#locked") || refresh(), REFRESH_MS);
    setInterval(tick, 1_000);
    if (location.hash) find(location.hash)?.focus({ preventScroll: true });
  });
})();
