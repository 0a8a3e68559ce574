// What the page asks of the server: its OpenAI interface, and its health.

import { eventsOf } from "./stream.js";

/// Why a request failed. `kind`: "unreachable", "loading", "busy", "key", "context", "refused" (the request has
/// a fault) or "broken" (the answer ended too early).
export class ServerError extends Error {
  constructor(kind, message, retryAfter = 0) {
    super(message);
    this.kind = kind;
    this.retryAfter = retryAfter; // seconds; 0: no advice
  }
}

const KIND_OF_STATUS = { 401: "key", 403: "refused", 429: "busy", 503: "busy" };
const UNREACHABLE = "The server cannot be reached. It may have been stopped, or the network is down.";

function errorOf(error, status, retryAfter = 0) {
  const message = typeof error?.message === "string" ? error.message : `The server answered with status ${status}.`;
  if (error?.code === "context_length_exceeded") return new ServerError("context", message);
  return new ServerError(KIND_OF_STATUS[status] ?? (status >= 500 ? "broken" : "refused"), message, retryAfter);
}

export class Server {
  /// `key`: returns the API key, "" if there is none.
  constructor(key) {
    this.key = key;
  }

  async fetch(path, options = {}) {
    const key = this.key();
    const headers = { ...(options.body ? { "Content-Type": "application/json" } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    try {
      return await fetch(path, { ...options, headers, credentials: "same-origin", cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError("unreachable", UNREACHABLE);
    }
  }

  async answer(path, options) {
    const response = await this.fetch(path, options);
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    const error = errorOf(body?.error, response.status, Number(response.headers.get("Retry-After")) || 0);
    if (response.status === 503 && (await this.health()).state === "loading") error.kind = "loading";
    throw error;
  }

  /// { state: "ok", "loading" or "unreachable", progress: 0 to 1, or null if it is not known }
  async health() {
    try {
      const response = await this.fetch("health");
      const body = await response.json().catch(() => null);
      const progress = typeof body?.progress === "number" ? Math.min(1, Math.max(0, body.progress)) : null;
      return { state: response.status === 503 && body?.status !== "draining" ? "loading" : "ok", progress };
    } catch {
      return { state: "unreachable", progress: null };
    }
  }

  /// The names of the models, the default one first.
  async models() {
    const { data } = await (await this.answer("v1/models")).json();
    return Array.isArray(data) ? data.map((model) => String(model.id)) : [];
  }

  /// The facts that /props tells, {} if it does not.
  async props() {
    try {
      return await (await this.answer("props")).json();
    } catch {
      return {};
    }
  }

  /// Whether a link to the placement page leads somewhere: links carry no key.
  async hasPlacement() {
    try {
      return (await fetch("placement", { method: "HEAD", cache: "no-store" })).ok;
    } catch {
      return false;
    }
  }

  /// Yields the chunks of a chat completion.
  async *chat(request, signal) {
    const body = JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } });
    const response = await this.answer("v1/chat/completions", { method: "POST", body, signal });
    try {
      for await (const data of eventsOf(response.body)) {
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data);
        if (chunk.error) throw errorOf(chunk.error, chunk.error.status ?? 500);
        yield chunk;
      }
    } catch (error) {
      if (error instanceof ServerError || error.name === "AbortError") throw error;
      throw new ServerError("broken", "The connection broke off in the middle of the reply.");
    }
    throw new ServerError("broken", "The reply ended before the server said that it was complete.");
  }
}
