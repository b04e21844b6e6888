// Every page works without this script. With it, live figures renew themselves, a form is sent once,
// "/" goes to the search, a link to a form goes to its first field, and a secret is copied by a button.
(() => {
  "use strict";

  // A form is sent once, however often its button is pressed. Coming back enables it again. One that
  // downloads something (data-again) leaves its page as it is, and may be sent again.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if ("again" in form.dataset) return;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "1";
    form.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", () => {
    for (const form of document.forms) {
      delete form.dataset.sent;
      form.removeAttribute("aria-busy");
    }
  });

  // "/" goes to the search, unless a text is being typed.
  document.addEventListener("keydown", (event) => {
    const box = document.getElementById("q");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || !box ||
      event.target.closest("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    box.focus();
    box.select();
  });

  // A link to a form of this page unfolds it, and goes to its first field.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    const form = link && document.getElementById(link.hash.slice(1));
    if (form?.tagName !== "FORM") return;
    event.preventDefault();
    form.closest("details")?.setAttribute("open", "");
    form.querySelector("input:not([type=hidden]), select, textarea").focus();
  });

  for (const button of document.querySelectorAll("button[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select it and copy it by hand";
      }
    });
  }

  // <section data-live="/address" data-every="2000">: the answer of the address replaces the
  // section's content. An answer that is not the fragment (signed out, an error) ends it.
  const renew = async (section) => {
    const every = Number(section.dataset.every) || 5000;
    const state = document.createElement("p");
    state.className = "live";
    state.setAttribute("role", "status");
    section.after(state);
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, every));
      if (document.hidden) continue;
      try {
        const answer = await fetch(section.dataset.live, {redirect: "error"});
        if (answer.status === 401 || answer.status === 403) {
          state.textContent = "You are signed out: these figures stand still. Load the page again.";
          return;
        }
        if (!answer.ok) throw new Error(String(answer.status));
        const open = [...section.querySelectorAll("details[open][id]")].map((d) => d.id);
        const made = new DOMParser().parseFromString(await answer.text(), "text/html");
        section.replaceChildren(...made.body.childNodes);
        for (const id of open) document.getElementById(id)?.setAttribute("open", "");
        state.textContent = "";
        if (section.querySelector("[data-finished]")) return;
      } catch {
        state.textContent = "This node does not answer: the figures are those of " +
          "its last answer. Trying again.";
      }
    }
  };
  // A page that is not up to date (#old) stands still as a whole.
  for (const section of document.querySelectorAll("body:not(:has(#old)) [data-live]")) renew(section);
})();
