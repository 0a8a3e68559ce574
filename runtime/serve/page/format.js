// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const counted = (number, unit) => `${whole.format(number)} ${unit}${number === 1 ? "" : "s"}`;

/// "870 ms", "3.2 s", "4 min 10 s".
export function duration(milliseconds) {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${Math.floor(milliseconds / 60_000)} min ${Math.round((milliseconds % 60_000) / 1000)} s`;
}

/// "42.1 tokens/s"
export function rate(tokens, milliseconds) {
  const value = tokens / (milliseconds / 1000);
  return `${value < 100 ? value.toFixed(1) : whole.format(value)} tokens/s`;
}

/// "950", "3.1k", "128k"
export function short(number) {
  if (number < 1000) return String(number);
  const thousands = number / 1000;
  return `${thousands < 100 ? Number(thousands.toFixed(1)) : Math.round(thousands)}k`;
}

/// Under which heading of the list a time falls.
export function dayName(time, now = Date.now()) {
  const startOfToday = new Date(now).setHours(0, 0, 0, 0);
  const day = 24 * 3600 * 1000;
  if (time >= startOfToday) return "Today";
  if (time >= startOfToday - day) return "Yesterday";
  if (time >= startOfToday - 7 * day) return "The last seven days";
  return "Earlier";
}

/// What a reply cost, from `timings` and `usage` of its last chunk; parts that the server did not tell are left out.
export function costText({ usage, timings, firstMilliseconds }) {
  const parts = [];
  if (usage?.completion_tokens !== undefined) parts.push(counted(usage.completion_tokens, "token"));
  // The time begins with the first token.
  if (timings?.predicted_n > 1 && timings.predicted_ms > 0) parts.push(rate(timings.predicted_n - 1, timings.predicted_ms));
  const prompt = usage?.prompt_tokens;
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? timings?.cache_n;
  if (prompt !== undefined) parts.push(`prompt ${counted(prompt, "token")}${cached > 0 ? `, ${whole.format(cached)} from the cache` : ""}`);
  if (firstMilliseconds !== undefined) parts.push(`first word after ${duration(firstMilliseconds)}`);
  return parts.join(" · ");
}
