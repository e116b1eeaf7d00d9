"use strict";
// Asks for the page again from time to time, and takes over what has changed.
{
  const connection = document.getElementById("connection");
  const seconds = Number(connection.dataset.refreshSeconds);
  const last = new Map(); // by the id of a part, as it was received

  const takeOver = (fresh) => {
    const focused = document.activeElement;
    const [id, caret] = [focused?.id, focused?.selectionStart];
    for (const part of document.querySelectorAll("[data-live]")) {
      const received = fresh.getElementById(part.id);
      if (!received || last.get(part.id) === received.innerHTML) continue;
      last.set(part.id, received.innerHTML);
      part.replaceChildren(...[...received.childNodes].map((node) => document.importNode(node, true)));
    }
    document.dispatchEvent(new Event("page-changed"));
    if (!id || focused.isConnected) return;
    const again = document.getElementById(id);
    again?.focus({ preventScroll: true });
    if (caret != null) again?.setSelectionRange(caret, caret);
  };

  const refresh = async () => {
    try {
      const answer = await fetch("/", { cache: "no-store" });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
      connection.textContent = `Refreshes every ${seconds} s.`;
      document.body.classList.remove("stale");
    } catch {
      connection.textContent = "desched does not answer; what you see may be old.";
      document.body.classList.add("stale");
    }
  };

  connection.textContent = `Refreshes every ${seconds} s.`;
  setInterval(() => document.hidden || refresh(), seconds * 1000);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  document.addEventListener("refresh", refresh);
}
