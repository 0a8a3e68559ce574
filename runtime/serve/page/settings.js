// The dialog of settings: the system prompt of the conversation, parameters of sampling, colours, the key.

import { byId } from "./dom.js";
import { readKey, writeKey, writeSettings } from "./store.js";

// Of the request, by the id of its field. An empty field leaves the choice to the server.
const PARAMETERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];

export class SettingsDialog {
  /// `onSystem(text)`: the system prompt of the conversation has changed; `onKey()`: the key has.
  constructor(settings, { onSystem, onKey }) {
    this.settings = settings;
    this.dialog = byId("settings");
    this.system = byId("system");
    byId("settings-open").addEventListener("click", () => this.open());
    byId("settings-close").addEventListener("click", () => this.dialog.close());
    byId("parameters-reset").addEventListener("click", () => this.reset());
    closeByShade(this.dialog);
    this.system.addEventListener("input", () => {
      settings.system = this.system.value;
      onSystem(this.system.value);
      writeSettings(settings);
    });
    for (const name of PARAMETERS) byId(name).addEventListener("input", (event) => this.readParameter(name, event.target));
    byId("theme").addEventListener("change", (event) => {
      settings.theme = event.target.value;
      writeSettings(settings);
      applyTheme(settings.theme);
    });
    byId("key-form").addEventListener("submit", (event) => event.preventDefault());
    byId("key").addEventListener("change", (event) => {
      writeKey(event.target.value.trim());
      onKey();
    });
  }

  /// Fills the fields; `system`: the conversation's.
  show(system) {
    this.system.value = system;
    for (const name of PARAMETERS) byId(name).value = this.settings.parameters[name] ?? "";
    byId("theme").value = this.settings.theme;
    byId("key").value = readKey();
  }

  /// Shows what the server uses where a field is empty, from /props.
  showDefaults(defaults) {
    for (const name of PARAMETERS) {
      const value = defaults?.[name];
      byId(name).placeholder = typeof value === "number" && name !== "seed" ? String(Number(value.toPrecision(3))) : "automatic";
    }
  }

  open() {
    this.dialog.showModal();
  }

  readParameter(name, field) {
    const isSet = field.value !== "" && field.validity.valid;
    field.setAttribute("aria-invalid", String(!field.validity.valid));
    if (isSet) this.settings.parameters[name] = Number(field.value);
    else delete this.settings.parameters[name];
    writeSettings(this.settings);
  }

  reset() {
    this.settings.parameters = {};
    for (const name of PARAMETERS) {
      byId(name).value = "";
      byId(name).removeAttribute("aria-invalid");
    }
    writeSettings(this.settings);
  }
}

export function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

/// A click beside a dialog closes it.
function closeByShade(dialog) {
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

/// Asks for the API key; resolves to whether one was given.
export function askKey() {
  const dialog = byId("key-dialog"), field = byId("key-asked"), form = byId("key-asked-form");
  if (dialog.open) return Promise.resolve(false);
  field.value = dialog.returnValue = "";
  form.onsubmit = (event) => {
    event.preventDefault();
    if (field.value.trim() !== "") dialog.close("given");
  };
  byId("key-cancel").onclick = () => dialog.close();
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => {
      const isGiven = dialog.returnValue === "given";
      if (isGiven) writeKey(field.value.trim());
      resolve(isGiven);
    };
  });
}
