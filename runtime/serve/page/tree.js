// A conversation: a tree of messages, of which one path is shown. An edited message and another answer
// to the same question are siblings.
//
//   { id, title, created, updated, system, messages: [{ id, parent, role, content, ... }], choice: { parent: child } }
//
// `parent` of the first messages is ROOT. `choice` names the child of each message that is shown; without
// one it is the newest.

export const ROOT = "";
const TITLE_CHARACTERS = 60;

export const newId = () => crypto.getRandomValues(new Uint32Array(4)).reduce((text, part) => text + part.toString(16).padStart(8, "0"), "");

export function newConversation(system = "") {
  const now = Date.now();
  return { id: newId(), title: "", created: now, updated: now, system, messages: [], choice: {} };
}

export const childrenOf = (conversation, parent) => conversation.messages.filter((message) => message.parent === parent);

/// The messages that are shown, in order.
export function pathOf(conversation) {
  const children = new Map();
  for (const message of conversation.messages)
    children.set(message.parent, [...(children.get(message.parent) ?? []), message]);
  const path = [];
  for (let parent = ROOT; children.has(parent); parent = path.at(-1).id) {
    const siblings = children.get(parent);
    path.push(siblings.find((message) => message.id === conversation.choice[parent]) ?? siblings.at(-1));
  }
  return path;
}

/// Adds a message and shows it. The first question gives the conversation its title.
export function addMessage(conversation, parent, role, content) {
  const message = { id: newId(), parent, role, content, created: Date.now() };
  conversation.messages.push(message);
  conversation.choice[parent] = message.id;
  conversation.updated = message.created;
  if (conversation.title === "" && role === "user") conversation.title = titleFrom(content);
  return message;
}

function titleFrom(text) {
  const line = text.trim().split("\n", 1)[0];
  const letters = [...line];
  return letters.length > TITLE_CHARACTERS ? `${letters.slice(0, TITLE_CHARACTERS - 1).join("")}…` : line;
}

/// Where a message stands among the other versions of it: { index, count }.
export function placeOf(conversation, message) {
  const siblings = childrenOf(conversation, message.parent);
  return { index: siblings.indexOf(message), count: siblings.length };
}

/// Shows the version before (-1) or after (+1).
export function showSibling(conversation, message, step) {
  const siblings = childrenOf(conversation, message.parent);
  const sibling = siblings[siblings.indexOf(message) + step];
  if (sibling) conversation.choice[message.parent] = sibling.id;
}

/// What is sent to the server to continue after `last`: the system prompt and the messages up to it. Replies
/// without text, which failed, are left out; what the user wrote before and after one is sent as one message,
/// as templates want turns to alternate.
export function promptMessages(conversation, last) {
  const byId = new Map(conversation.messages.map((message) => [message.id, message]));
  const path = [];
  for (let message = last; message; message = byId.get(message.parent)) path.unshift(message);
  const messages = conversation.system.trim() === "" ? [] : [{ role: "system", content: conversation.system }];
  for (const { role, content, reasoning } of path) {
    const before = messages.at(-1);
    if (role === "user" && before?.role === "user") before.content += `\n\n${content}`;
    else if (role === "user" || content !== "") messages.push({ role, content, ...(reasoning ? { reasoning_content: reasoning } : {}) });
  }
  return messages;
}

/// Takes a message without children away.
export function removeMessage(conversation, message) {
  conversation.messages = conversation.messages.filter((other) => other !== message);
  if (conversation.choice[message.parent] === message.id) delete conversation.choice[message.parent];
}
