// The messages that are shown: those that stay when another branch or a new message is shown are not made again.

import { byId } from "./dom.js";
import { MessageView } from "./message.js";
import { pathOf } from "./tree.js";

const NEAR_END_PIXELS = 80;
const AT_END_PIXELS = 4;

export class Thread {
  /// `runOf(message)`: the run that fills the message, or undefined.
  constructor(actions, runOf) {
    Object.assign(this, { actions, runOf });
    this.list = byId("messages");
    this.pane = byId("thread");
    this.toEnd = byId("to-end");
    this.views = [];
    this.conversation = null;
    this.follows = true; // the end, as it grows
    this.lastTop = 0;
    this.pane.addEventListener("scroll", () => this.noteScroll(), { passive: true });
    // Scrolling back by wheel or key lets go at once, before text that arrives scrolls to the end again.
    this.pane.addEventListener("wheel", (event) => { if (event.deltaY < 0) this.follows = false; }, { passive: true });
    this.toEnd.addEventListener("click", () => this.scrollToEnd());
    new ResizeObserver(() => this.follows && this.scrollToEnd()).observe(this.list);
  }

  noteScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.pane;
    const rest = scrollHeight - scrollTop - clientHeight;
    // Text that grew since the page scrolled is no reason to let go of the end: scrolling back is.
    if (scrollTop < this.lastTop) this.follows = rest < AT_END_PIXELS;
    else if (rest < NEAR_END_PIXELS) this.follows = true;
    this.lastTop = scrollTop;
    this.toEnd.hidden = this.follows;
  }

  scrollToEnd() {
    this.follows = true;
    this.pane.scrollTop = this.pane.scrollHeight;
    this.toEnd.hidden = true;
  }

  /// Shows the conversation's path.
  show(conversation) {
    const path = pathOf(conversation);
    let kept = 0;
    if (this.conversation === conversation)
      while (kept < path.length && this.views[kept]?.message === path[kept]) ++kept;
    const focus = this.focusIn(kept);
    for (const view of this.views.splice(kept)) {
      const run = this.runOf(view.message);
      if (run?.view === view) run.view = null;
      view.element.remove();
    }
    for (const message of path.slice(kept)) {
      const view = new MessageView(conversation, message, this.actions, this.runOf(message));
      this.views.push(view);
      this.list.append(view.element);
    }
    if (focus) this.restore(focus);
    const isOther = this.conversation !== conversation;
    this.conversation = conversation;
    byId("empty").hidden = path.length > 0;
    if (isOther) this.scrollToEnd();
  }
  /// Which button has the focus, if it is in a message that goes.
  focusIn(from) {
    const index = this.views.findIndex((view, at) => at >= from && view.element.contains(document.activeElement));
    return index < 0 ? null : { index, label: document.activeElement.getAttribute("aria-label") ?? "" };
  }

  /// The same button of the message that came in its place, or another that shows versions, or the field.
  restore({ index, label }) {
    const place = this.views[index]?.element;
    const button = place?.querySelector(`footer [aria-label="${CSS.escape(label)}"]:enabled`) ?? place?.querySelector(".versions button:enabled");
    (button ?? byId("input")).focus();
  }
}
