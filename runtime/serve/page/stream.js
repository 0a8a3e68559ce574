// Server-sent events from the body of an answer.

const MAX_LINE_CHARACTERS = 16 << 20;

/// Yields the data of each event. Comments, which servers send as pings, and other fields are skipped.
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "", data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      pending += value;
      if (pending.length > MAX_LINE_CHARACTERS) throw new Error("a line of the stream is too long");
      const lines = pending.split(/\r\n|\n|\r(?!$)/);
      pending = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        } else if (line === "" && data.length > 0) {
          yield data.join("\n");
          data = [];
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
