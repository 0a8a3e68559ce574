// What the browser keeps: conversations in IndexedDB, settings, the key and drafts in its local storage.
// Nothing of it is sent to the server but what a request needs.

const DATABASE = "moert";
const CONVERSATIONS = "conversations";
const PREFIX = "moert.";

function resultOf(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export class Conversations {
  constructor(database) {
    this.database = database;
    this.others = new BroadcastChannel(DATABASE); // other tabs with this page
  }

  /// Without a database, which private windows may lack, nothing is kept.
  static async open() {
    try {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(CONVERSATIONS, { keyPath: "id" });
      return new Conversations(await resultOf(request));
    } catch {
      return new Conversations(null);
    }
  }

  get isKept() {
    return this.database !== null;
  }

  store(mode) {
    return this.database.transaction(CONVERSATIONS, mode).objectStore(CONVERSATIONS);
  }

  /// Tells other tabs that a conversation has changed or is gone.
  tell(id) {
    this.others.postMessage(id);
  }

  /// `changed(id)`: another tab has told.
  onOther(changed) {
    this.others.onmessage = ({ data }) => changed(data);
  }

  async get(id) {
    return this.isKept ? resultOf(this.store("readonly").get(id)) : undefined;
  }

  async all() {
    return this.isKept ? resultOf(this.store("readonly").getAll()) : [];
  }

  async put(conversation) {
    if (this.isKept) await resultOf(this.store("readwrite").put(conversation));
  }

  async remove(id) {
    if (this.isKept) await resultOf(this.store("readwrite").delete(id));
  }
}

function read(name) {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null; // storage is switched off
  }
}

function write(name, text) {
  try {
    if (text === "") localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, text);
  } catch {
    // Storage is full or switched off: the page works on, and forgets this.
  }
}

export const readKey = () => read("key") ?? "";
export const writeKey = (key) => write("key", key);
export const readDraft = (id) => read(`draft.${id}`) ?? "";
export const writeDraft = (id, text) => write(`draft.${id}`, text);
export const readShown = () => read("shown") ?? "";
export const writeShown = (id) => write("shown", id);

/// { theme, system, model, parameters: { temperature, ... } }; absent ones are the server's.
export function readSettings() {
  try {
    const settings = JSON.parse(read("settings") ?? "{}");
    return { theme: "", system: "", model: "", ...settings, parameters: { ...settings.parameters } };
  } catch {
    return { theme: "", system: "", model: "", parameters: {} };
  }
}

export const writeSettings = (settings) => write("settings", JSON.stringify(settings));
