// One reply on its way: takes the chunks of the stream into its message. It goes on while another
// conversation is shown.

import { costText } from "./format.js";
import { ServerError } from "./server.js";

const SAVE_MILLISECONDS = 1000;

export class Run {
  /// `message` is the reply, which is empty. `save(isWhole)` keeps the conversation.
  constructor(server, conversation, message, request, save) {
    Object.assign(this, { server, conversation, message, request, save });
    this.controller = new AbortController();
    this.started = performance.now();
    this.cost = {};
    this.view = null; // the element on the page that shows it, if it is shown
    this.nextSave = this.started + SAVE_MILLISECONDS;
  }

  stop() {
    this.controller.abort();
  }

  /// Resolves when the reply has ended, in whichever way: message.finish and message.error tell.
  async finish() {
    const { message } = this;
    message.finish = "running";
    try {
      for await (const chunk of this.server.chat(this.request, this.controller.signal)) this.take(chunk);
      if (message.finish === "running") message.finish = "stop";
    } catch (error) {
      message.finish = error.name === "AbortError" ? "stopped" : "error";
      if (message.finish === "error") message.error = { kind: error.kind ?? "broken", text: error.message };
      if (!(error instanceof ServerError) && error.name !== "AbortError") console.error(error);
    }
    message.cost = costText(this.cost);
    const { prompt_tokens: before, completion_tokens: after } = this.cost.usage ?? {};
    if (before !== undefined && after !== undefined) message.contextTokens = before + after;
    this.conversation.updated = Date.now();
    await this.save(true);
    this.view?.end();
  }

  take(chunk) {
    const { message, cost } = this;
    if (chunk.model) message.model = chunk.model;
    if (chunk.usage) cost.usage = chunk.usage;
    if (chunk.timings) cost.timings = chunk.timings;
    const choice = chunk.choices?.[0];
    const { reasoning_content: reasoning, content } = choice?.delta ?? {};
    if (reasoning || content) cost.firstMilliseconds ??= performance.now() - this.started;
    if (reasoning) {
      this.thoughtFrom ??= performance.now();
      message.reasoning = (message.reasoning ?? "") + reasoning;
      this.view?.appendReasoning(reasoning);
    }
    if (content) {
      if (message.reasoning) message.thoughtMilliseconds ??= performance.now() - this.thoughtFrom;
      message.content += content;
      this.view?.appendContent(content);
    }
    if (choice?.finish_reason) message.finish = choice.finish_reason;
    if (performance.now() > this.nextSave) {
      this.nextSave = performance.now() + SAVE_MILLISECONDS;
      this.save(false);
    }
  }
}
