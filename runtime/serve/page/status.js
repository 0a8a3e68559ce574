// Whether the server can be used: watches it while it cannot, and tells.

import { announce, byId, el } from "./dom.js";

const LOADING_MILLISECONDS = 1000; // between looks at a server that loads
const UNREACHABLE_MILLISECONDS = 3000;
const TEXTS = {
  ok: "",
  loading: "The model is loading.",
  unreachable: "The server cannot be reached; the page tries again by itself.",
};

export class ServerStatus {
  /// `onReady()`: the server can be used now.
  constructor(server, onReady) {
    Object.assign(this, { server, onReady });
    this.bar = byId("status");
    this.timer = 0;
    this.isLooking = false;
  }

  /// Looks now, and again until the server is ready.
  async watch() {
    if (this.isLooking) return;
    this.isLooking = true;
    clearTimeout(this.timer);
    const { state, progress } = await this.server.health();
    this.isLooking = false;
    this.show(state, progress);
    if (state === "ok") return this.onReady();
    this.timer = setTimeout(() => this.watch(), state === "loading" ? LOADING_MILLISECONDS : UNREACHABLE_MILLISECONDS);
  }

  show(state, progress) {
    this.bar.hidden = state === "ok";
    this.bar.className = state;
    // It is said once, not each time that the page looks.
    if (this.bar.dataset.state !== state) {
      const text = TEXTS[state];
      this.bar.replaceChildren(el("span", {}, text));
      if (state === "loading")
        this.bar.append(el("progress", { max: "1", "aria-label": "Loaded" }), el("span", { class: "percent", "aria-hidden": "true" }));
      this.bar.dataset.state = state;
      if (text !== "") announce(text);
    }
    if (state === "loading" && progress !== null) {
      this.bar.querySelector("progress").value = progress;
      this.bar.querySelector(".percent").textContent = `${Math.round(100 * progress)} %`;
    }
  }
}
