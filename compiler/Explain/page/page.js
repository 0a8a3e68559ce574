// Fills the page from the data of the plan.
const facts = JSON.parse(byId("facts").textContent);
const phases = facts.phases;
const deviceNames = [...new Set([...facts.devices.map((device) => device.name), ...phases.flatMap((phase) => phase.rows.map((row) => row.device))])];
const deviceColor = (name) => `var(--c${Math.max(deviceNames.indexOf(name), 0) % 6})`;
const shapeOf = (phase) => shapes[phases.indexOf(phase) % shapes.length];
const swatch = (color) => el("i", { class: "swatch", style: `background:${color}`, "aria-hidden": "true" });
const shapeSwatch = (shape) => svg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, marker(shape, 0, 0, 5, "var(--quiet)"));

function stepText(phase) {
  if (phase.typical_tokens < 1)
    return "not in the plan's program";
  const isBatch = phase.name === "batch";
  return counted(phase.typical_tokens, isBatch ? "sequence" : "token") + (isBatch ? ", each" : "") +
    (phase.typical_cached > 0 ? ` after ${phase.typical_cached} in the cache` : "");
}

function fillHead() {
  document.title = `${facts.model || "Plan"} on ${facts.target}`;
  byId("model").textContent = `${facts.model || "A model without a name"} on ${facts.target}`;
  const over = facts.devices.filter((device) => device.state === "over"), tight = facts.devices.filter((device) => device.state === "tight");
  const names = (devices) => devices.map((device) => device.name).join(", ");
  byId("verdict").append(over.length > 0
    ? el("span", { class: "bad" }, `Does not fit: over the budget of ${names(over)}.`)
    : `It fits${tight.length > 0 ? `, tightly on ${names(tight)},` : ""} with a context of ${facts.context} tokens.`);
  const kvTypes = [...new Set(facts.kv_types.map((kv) => kv.type))].join("+");
  const lines = [
    ["Architecture", `${facts.architecture}, ${counted(facts.layers, "layer")}` + (facts.experts > 0 ? `, ${facts.experts} experts of which a token uses ${facts.experts_used}` : "")],
    ["Parameters", facts.parameters > 0 ? amount(facts.parameters).replace(" G", " B") : null],
    ["Target", facts.target],
    ["Context", `${facts.context} tokens`],
    ["Sequences", facts.sequences > 1 ? `${facts.sequences} decoded together` : null],
    ["Tokens of a prefill step", facts.ubatch === null ? null : `${facts.ubatch} at most`],
    ["KV cache", facts.kv_bytes > 0 ? `${bytes(facts.kv_bytes_per_token)} per token in ${kvTypes}, ${bytes(facts.kv_bytes)} for ${facts.kv_room}` : null],
    ["Compiler", facts.compiler], ["Options", facts.options],
    ...facts.files.map((file) => ["File", `${file.path} (${bytes(file.bytes)}${file.kind === "packed" ? ", weights repacked for this target" : ""})`]),
  ];
  for (const [name, value] of lines)
    if (value)
      byId("plan").append(el("dt", {}, name), el("dd", {}, value));
  byId("notes").append(...facts.notes.map((note) => el("li", {}, note)));
  byId("notes-section").hidden = facts.notes.length === 0;
}

function fillSpeed() {
  const tile = (name, rate, unit, about) => byId("speed").append(el("div", { class: "tile" }, el("h3", {}, name), el("b", {}, `${scaled(rate, 1, 1000, [""])} ${unit}`), el("p", {}, about)));
  const find = (name) => phases.find((phase) => phase.name === name);
  const shares = (phase) => Object.entries(phase.device_seconds).filter(([, time]) => time > 0).map(([device, time]) => `${share(time, phase.seconds)} ${device}`).join(", ");
  if (facts.decode_tokens_per_second !== null)
    tile("Decode", facts.decode_tokens_per_second, "tokens/s", `${stepText(find("decode"))}, logits included: ${seconds(1 / facts.decode_tokens_per_second)}. At work: ${shares(find("decode"))}.`);
  const prefill = find("streamed_prefill") ?? find("prefill");
  if (facts.prefill_tokens_per_second !== null)
    tile("Prefill", facts.prefill_tokens_per_second, "tokens/s", `${stepText(prefill)}: ${seconds(prefill.seconds)}. At work: ${shares(prefill)}.`);
  if (facts.batch_tokens_per_second !== null)
    tile("Batch", facts.batch_tokens_per_second, "tokens/s in all", `${stepText(find("batch"))}, logits included: ${seconds(find("batch").seconds)}. At work: ${shares(find("batch"))}.`);
  if (byId("speed").childElementCount === 0)
    byId("speed").append("The plan carries no predicted times.");
}

/// Fills the table of a ladder, with a line for each rung's devices.
function fillRungs() {
  const rungs = facts.rungs ?? [];
  byId("rungs-section").hidden = rungs.length === 0;
  const rate = (value) => value === null ? "-" : `${scaled(value, 1, 1000, [""])} tokens/s`;
  const columns = [
    ["Rung", "name", (rung) => `${rung.number}${rung.number === facts.rung ? ", on this page" : ""}`],
    ["Context", "number", (rung) => counted(rung.context, "token")],
    ["Needs", "", (rung) => rung.devices.map((device) => `${device.name} ${bytes(device.used_bytes)}` + (device.budget_bytes === null ? "" : ` of ${bytes(device.budget_bytes)}`)).join(", ")],
    ["KV cache", "number", (rung) => bytes(rung.devices.reduce((sum, device) => sum + device.kv_bytes, 0))],
    ["Prefill", "number", (rung) => rate(rung.prefill_tokens_per_second)],
    ["Decode", "number", (rung) => rate(rung.decode_tokens_per_second)],
  ];
  byId("rungs-head").append(...columns.map(([title, kind]) => el("th", { role: "columnheader", scope: "col", class: kind || null }, title)));
  byId("rungs-body").append(...rungs.map((rung) => el("tr", { role: "row", "aria-current": rung.number === facts.rung ? "true" : null },
    ...columns.map(([title, kind, value]) => el("td", { role: "cell", class: kind || null, "data-label": title }, value(rung))))));
}

function fillMemory() {
  for (const device of facts.devices) {
    const budget = device.budget_bytes, whole = Math.max(budget ?? 0, device.used_bytes);
    const parts = [["weights", device.weight_bytes, "var(--c0)"], ["KV cache", device.kv_bytes, "var(--c1)"], ["activations", device.activation_bytes, "var(--c2)"], ["scratch", device.scratch_bytes, "var(--c3)"]];
    const verdict = { fits: "fits", tight: "tight", over: "does not fit", unknown: "the plan records no budget" }[device.state];
    const left = budget === null ? null : budget - device.used_bytes;
    byId("memory").append(el("article", { class: "memory" },
      el("header", {}, el("h3", {}, el("bdi", {}, device.name)),
        el("span", {}, bytes(device.used_bytes) + (budget === null ? "" : ` of ${bytes(budget)}, ${share(device.used_bytes, budget)}`)),
        el("span", device.state === "over" ? { class: "bad" } : {}, left < 0 ? `${verdict}: ${bytes(-left)} over the budget` : verdict)),
      el("div", { class: "bar", "aria-hidden": "true" }, ...parts.map(([, size, color]) =>
        el("i", { class: size > 0 ? null : "none", style: `width:${whole > 0 ? 100 * size / whole : 0}%;background:${color}` }))),
      el("div", { class: "legend" }, ...parts.map(([name, size, color]) => el("span", {}, swatch(color), `${name} ${bytes(size)}`)),
        left === null || left < 0 ? null : el("span", {}, swatch("var(--ground)"), `left ${bytes(left)}`))));
  }
}

/// The parts with the largest share of any step get a color each; so do copies
/// between devices.
function fillTimelines() {
  const weight = new Map();
  for (const phase of phases) {
    const sums = new Map();
    for (const row of phase.rows)
      if (!row.copies && row.seconds > 0)
        sums.set(row.part, (sums.get(row.part) ?? 0) + row.seconds / phase.seconds);
    for (const [part, sum] of sums)
      weight.set(part, Math.max(weight.get(part) ?? 0, phase.timeline.spans.length > 1 ? sum : 0));
  }
  const colored = [...weight].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([part]) => part);
  const colorOf = (row) => row.copies ? "var(--copy)" : colored.includes(row.part) ? `var(--c${colored.indexOf(row.part)})` : "var(--rest)";
  const drawn = phases.filter((phase) => phase.timeline.spans.length > 0 && phase.timeline.seconds > 0);
  byId("timeline-legend").append(...colored.map((part, i) => el("span", {}, swatch(`var(--c${i})`), el("bdi", {}, part))),
    drawn.some((phase) => phase.rows.some((row) => row.copies)) ? el("span", {}, swatch("var(--copy)"), "copies between devices") : null,
    el("span", {}, swatch("var(--rest)"), "all else"));
  for (const phase of drawn)
    drawTimeline(byId("timelines"), phase, `${stepText(phase)}: ends after ${seconds(phase.timeline.seconds)}; ops one after another take ` +
      seconds(phase.timeline.queues.reduce((sum, queue) => sum + queue.busy_seconds, 0)), colorOf);
  if (drawn.length === 0)
    byId("timelines").append("The plan carries no predicted times.");
}

function fillRoofline() {
  const picture = byId("roofline"), phaseSelect = byId("roofline-phase"), deviceSelect = byId("roofline-device");
  const all = phases.flatMap((phase) => phase.rows.filter(canBePlotted).map((row) => ({
    row, phase, x: row.flops / roofBytes(row), y: row.flops / row.seconds, color: deviceColor(row.device), shape: shapeOf(phase),
    size: 3 + 9 * Math.sqrt(row.seconds / phase.seconds),
    text: `${row.op}${row.count > 1 ? ` x${row.count}` : ""} in ${phase.name} on ${row.device}, ${row.kernel}: ${amount(row.flops / roofBytes(row))} FLOP for each byte${row.weight_bytes + row.kv_bytes > 0 ? " of weights and cache" : ""}, ` +
      `${amount(row.flops / row.seconds)} FLOP/s, ${bytes(roofBytes(row) / row.seconds)}/s; ${seconds(row.seconds)}, ${share(row.seconds, phase.seconds)} of the step`,
  }))).sort((a, b) => a.x - b.x || a.y - b.y);
  const roofs = deviceNames.map((device) => {
    const own = all.filter((point) => point.row.device === device);
    return { device, color: deviceColor(device), bandwidth: Math.max(...own.map((point) => point.y / point.x)), peak: Math.max(...own.map((point) => point.y)) };
  }).filter((roof) => roof.peak > 0);
  let points = [], chosen = null;
  const reset = explorable(picture, "Ops by intensity", byId("roofline-readout"), {
    count: () => points.length,
    at: (x, y) => {
      const box = picture.viewBox.baseVal, far = (point) => Math.hypot(point.px - x * box.width, point.py - y * box.height);
      const nearest = points.reduce((best, point, i) => best < 0 || far(point) < far(points[best]) ? i : best, -1);
      return nearest >= 0 && far(points[nearest]) < 40 ? nearest : -1;
    },
    text: (item) => points[item].text,
    mark: (item) => fill(chosen, { cx: points[item].px, cy: points[item].py, r: points[item].size + 4 }, []),
  });
  const redraw = () => {
    const onDevice = (name) => deviceSelect.value === "" || name === deviceSelect.value;
    points = all.filter((point) => (phaseSelect.value === "" || point.phase.name === phaseSelect.value) && onDevice(point.row.device));
    chosen = drawRoofline(picture, points, roofs.filter((roof) => onDevice(roof.device)));
    reset();
  };
  chooser(phaseSelect, [["", "all"], ...phases.map((phase) => [phase.name, phase.name])], redraw);
  chooser(deviceSelect, [["", "all"], ...deviceNames.map((name) => [name, name])], redraw);
  byId("roofline-legend").append(
    ...roofs.map((roof) => el("span", {}, swatch(roof.color), el("bdi", {}, `${roof.device}: ${bytes(roof.bandwidth)}/s, ${amount(roof.peak)} FLOP/s`))),
    ...phases.map((phase) => el("span", {}, shapeSwatch(shapeOf(phase)), el("bdi", {}, phase.name))),
    el("span", {}, "larger: more of the step's time"));
  const without = phases.flatMap((phase) => phase.rows).filter((row) => !canBePlotted(row)).length;
  byId("roofline-left-out").textContent = without > 0 ? `${counted(without, "row")} of the table without arithmetic, such as copies between devices, cannot be in it.` : "";
  new ResizeObserver(redraw).observe(picture);
}

function fillTable() {
  const phaseSelect = byId("ops-phase"), deviceSelect = byId("ops-device"), search = byId("ops-text");
  const phaseOf = () => phases.find((phase) => phase.name === phaseSelect.value) ?? phases[0];
  const other = (row) => row.activation_bytes + row.kv_bytes;
  const took = (time) => time === null ? "not possible" : seconds(time);
  const name = (rejected) => rejected.name + (rejected.of ? ` for ${rejected.of}` : "");
  const rejectedItem = (rejected) => el("li", {}, el("bdi", {}, name(rejected)), ` (${rejected.kind}): ${took(rejected.seconds)}, and ${took(rejected.chosen_seconds)} with `,
    el("bdi", {}, rejected.chosen), `; ${rejected.reason}`);
  const rejectedList = (row) => row.rejected.length === 0 ? "-" : el("details", {}, el("summary", {}, counted(row.rejected.length, "alternative")), el("ul", {}, ...row.rejected.map(rejectedItem)));
  // Title, class, sort key, and displayed value.
  const columns = [
    ["Op", "name", (row) => row.op, (row) => row.op + (row.count > 1 ? ` x${row.count}` : "")],
    ["Device", "", (row) => row.device],
    ["Kernel", "kernel", (row) => row.kernel, (row) => row.kernel.replaceAll("+", " + ")],
    ["FLOP/B", "number", (row) => row.intensity ?? -1, (row) => row.intensity === null ? "-" : amount(row.intensity)],
    ["Weights", "number", (row) => row.weight_bytes, (row) => bytes(row.weight_bytes)],
    ["Other bytes", "number", other, (row) => bytes(other(row))],
    ["Time", "number", (row) => row.seconds, (row) => seconds(row.seconds)],
    ["% of step", "number", (row) => row.seconds, (row, phase) => share(row.seconds, phase.seconds)],
    ["Why", "why", (row) => facts.reasons[row.reason]],
    ["Rejected", "rejected", (row) => row.rejected.length, rejectedList],
  ];
  let sorted = -1, direction = 1;
  const redraw = () => {
    const phase = phaseOf();
    if (!phase)
      return;
    const wanted = search.value.trim().toLowerCase();
    const rows = phase.rows.filter((row) => (deviceSelect.value === "" || row.device === deviceSelect.value) &&
      [row.op, row.kernel, facts.reasons[row.reason], ...row.rejected.flatMap((rejected) => [rejected.name, rejected.of, rejected.reason])].some((text) => text.toLowerCase().includes(wanted)));
    if (sorted >= 0) {
      const by = columns[sorted][2];
      rows.sort((a, b) => direction * (typeof by(a) === "string" ? (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0) : by(a) - by(b)));
    }
    byId("ops-body").replaceChildren(...rows.map((row) => el("tr", { role: "row" }, ...columns.map(([title, kind, value, shown]) =>
      el("td", { role: "cell", class: kind || null, "data-label": title }, (shown ?? value)(row, phase))))));
    const sum = (value) => rows.reduce((total, row) => total + value(row), 0);
    const totals = ["Total", "", "", "", bytes(sum((row) => row.weight_bytes)), bytes(sum(other)), seconds(sum((row) => row.seconds)), share(sum((row) => row.seconds), phase.seconds), "", ""];
    byId("ops-foot").replaceChildren(el("tr", { role: "row" }, ...totals.map((text, i) => el("td", { role: "cell", class: columns[i][1] || null, "data-label": columns[i][0] }, text))));
    byId("ops-count").textContent = `${phase.name}: ${stepText(phase)}. ${rows.length} of ${counted(phase.rows.length, "row")}; one of several layers has their sums. N in a reason is the op's layer.`;
    [...byId("ops-head").children].forEach((head, i) => head.setAttribute("aria-sort", i !== sorted ? "none" : direction > 0 ? "ascending" : "descending"));
  };
  columns.forEach(([title, kind, value], index) => {
    const button = el("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      // The first click sorts numbers from the largest; the third restores the step's order.
      const first = kind === "number" || kind === "rejected" ? -1 : 1;
      if (sorted !== index)
        [sorted, direction] = [index, first];
      else if (direction === first)
        direction = -first;
      else
        sorted = -1;
      redraw();
    });
    byId("ops-head").append(el("th", { role: "columnheader", scope: "col", class: kind || null, "aria-sort": "none" }, button));
  });
  chooser(phaseSelect, phases.map((phase) => [phase.name, phase.name]), redraw);
  chooser(deviceSelect, [["", "all"], ...deviceNames.map((name) => [name, name])], redraw);
  search.addEventListener("input", redraw);
  redraw();
}

fillHead();
fillSpeed();
fillRungs();
fillMemory();
fillTimelines();
fillRoofline();
fillTable();
