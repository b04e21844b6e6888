// What a page keeps, seen from within; check_test.go says why. No page's own script calls it.
(() => {
  "use strict";
  const shown = (e) => e.checkVisibility({visibilityProperty: true, opacityProperty: true});
  const called = (e) => e.id ? "#" + e.id : e.tagName.toLowerCase() +
    (e.className && typeof e.className === "string" ? "." + e.className.trim().replace(/\s+/g, ".") : "") +
    " " + JSON.stringify((e.textContent || e.name || "").trim().replace(/\s+/g, " ").slice(0, 40));

  const overflow = () => {
    const root = document.documentElement, most = root.clientWidth;
    if (root.scrollWidth <= most) return [];
    const wide = [...document.body.querySelectorAll("*")].filter((e) => shown(e) &&
      e.getBoundingClientRect().right > most + 1 && !e.closest(".scroll"));
    return [`it is ${root.scrollWidth} px wide in a window of ${most}: ` +
      wide.slice(-3).map(called).join(", ")];
  };

  // Colours as they are computed: rgb(r, g, b) or rgba(r, g, b, a), laid over what is behind.
  const parts = (text) => {
    const n = (text.match(/[\d.]+/g) || []).map(Number);
    return {rgb: n.slice(0, 3), a: n.length > 3 ? n[3] : 1};
  };
  const over = (top, under) => top.rgb.map((c, i) => c * top.a + under[i] * (1 - top.a));
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const layer = parts(getComputedStyle(at).backgroundColor);
      if (layer.a > 0) layers.push(layer);
      if (layer.a === 1) break;
    }
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    let under = dark ? [18, 18, 18] : [255, 255, 255];
    for (const layer of layers.reverse()) under = over(layer, under);
    return under;
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = () => {
    const faults = [];
    for (const e of document.body.querySelectorAll("*")) {
      const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
      if (!own || !shown(e) || e.closest("svg, [aria-busy], option")) continue;
      const style = getComputedStyle(e), size = parseFloat(style.fontSize);
      const back = behind(e), front = over(parts(style.color), back);
      const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
      const ratio = (high + 0.05) / (low + 0.05);
      const large = size >= 24 || size >= 18.6 && Number(style.fontWeight) >= 700;
      if (ratio < (large ? 3 : 4.5)) {
        faults.push(`${called(e)} has a contrast of ${ratio.toFixed(2)}`);
      }
    }
    return faults;
  };

  const structure = () => {
    const faults = [], ids = new Set();
    const top = document.querySelector("header.top"), switched = document.querySelector(".switch[open]");
    if (top && !switched && innerWidth >= 1280 && top.offsetHeight > 85) {
      faults.push(`the header is ${top.offsetHeight} px high: more than one line`);
    }
    for (const nav of document.querySelectorAll("nav.sections, nav.tabs, nav.chips")) {
      if (nav.querySelectorAll("a").length > 7) faults.push(`${called(nav)} has more than 7 entries`);
    }
    const titles = [...document.querySelectorAll("h1")].filter(shown).length;
    if (titles !== 1) faults.push(`it has ${titles} h1`);
    if (!document.title || !document.documentElement.lang) faults.push("no title, or no language");
    for (const e of document.querySelectorAll("[id]")) {
      if (ids.has(e.id)) faults.push(`the id ${e.id} appears twice`);
      ids.add(e.id);
    }
    for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a")) {
      if (!shown(e)) continue;
      const name = e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") ||
        (e.labels ? [...e.labels].map((l) => l.textContent).join("") : "") || e.textContent;
      if (!name.trim()) faults.push(`${called(e)} has no name`);
    }
    for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) {
      for (const a of ["aria-labelledby", "aria-describedby"]) {
        const id = e.getAttribute(a);
        if (id && !document.getElementById(id)) faults.push(`${a} names ${id}, which is not there`);
      }
    }
    return faults;
  };

  // Everything that a person without a mouse must come to. Of a group of radio buttons the keyboard
  // comes to the one that is chosen.
  const stops = () => [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
    .filter((e) => shown(e) && !e.disabled && e.tabIndex >= 0 &&
      !(e.type === "radio" && !e.checked &&
        e.form?.querySelector(`input[type=radio][name="${e.name}"]:checked`)));

  const outline = () => [document.title, ...[...document.querySelectorAll("h1, h2, h3")]
    .filter(shown).map((e) => e.textContent.trim()),
    `forms ${[...document.forms].filter((f) => shown(f.closest("details") || f)).length}`, `links ${[...document.links].filter(shown).length}`];

  // Where the page leads: by its links, and by its forms with what they hold, or else with their
  // examples. A form that changes something may ask first, at /confirm.
  const ways = () => {
    const all = [...document.links].filter((a) => !a.hasAttribute("download")).map((a) => a.href);
    for (const form of document.forms) {
      const typed = new URLSearchParams();
      for (const e of form.elements) {
        const chosen = e.type !== "checkbox" && e.type !== "radio" || e.checked;
        if (!e.name || e.name.startsWith("_") || e.tagName === "BUTTON" || !chosen) continue;
        typed.set(e.name, e.value || e.placeholder || (e.type === "date" ? "2026-01-01" : ""));
      }
      const buttons = [...form.querySelectorAll("button")];
      for (const b of buttons.length ? buttons : [form]) {
        const query = new URLSearchParams(typed);
        if (b !== form && b.name) query.set(b.name, b.value);
        const action = b.getAttribute("formaction") ?? form.getAttribute("action");
        const to = new URL(action, location.href).href.split("#")[0];
        all.push(`${to}${form.method === "get" ? "" : "/confirm"}?${query}`);
      }
    }
    return all;
  };

  window.tollgateCheck = {
    ways,
    first: (selector) => [...document.querySelectorAll(selector)].find(shown),
    within: (selector, text) => [...document.querySelectorAll(selector)]
      .find((e) => shown(e) && e.textContent.trim().replace(/\s+/g, " ") === text),
    // The middle of an element, once it is seen and nothing lies above it.
    middle: (e) => {
      if (!e) return {fault: "it is not there"};
      e.scrollIntoView({block: "center"});
      const box = e.getClientRects()[0], x = box.x + box.width / 2, y = box.y + box.height / 2;
      const top = document.elementFromPoint(x, y);
      if (!top || !e.contains(top) && !top.contains(e)) return {fault: "something lies above it"};
      return {x, y, fault: ""};
    },
    look: () => [...overflow(), ...contrast(), ...structure()],
    overflow,
    outline,
    unfold: () => document.querySelectorAll("details").forEach((d) => { d.open = true; }),
    fold: () => document.querySelectorAll("details").forEach((d) => { d.open = false; }),
    gather: () => {
      window.tollgateStops = stops();
      return window.tollgateStops.length;
    },
    // Where the focus is: the number of the stop, and what is wrong with how it is shown.
    at: () => {
      const e = document.activeElement, i = window.tollgateStops.indexOf(e);
      const style = getComputedStyle(e), box = e.getBoundingClientRect();
      const inside = box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth;
      const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
      return {stop: i, fault: i < 0 ? "" : !seen ? `${called(e)} shows no focus` :
        !inside ? `${called(e)} has the focus outside of the window` : ""};
    },
    name: (i) => called(window.tollgateStops[i]),
  };
})()
