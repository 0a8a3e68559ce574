"use strict";
// Elements, number formats, and helpers for both plots. Texts of the plan
// become text nodes and attributes, never markup.
const hint = "Point at a mark, tap it, or focus the figure and use the arrow keys.";
const svgSpace = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined)
      node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(svgSpace, tag), attributes, children);
const byId = (id) => document.getElementById(id);

/// Formats three digits and a unit, like moec explain.
function scaled(value, scale, step, units) {
  if (value === 0)
    return "0";
  if (value < 0)
    return "-" + scaled(-value, scale, step, units);
  let unit = 0;
  for (; unit + 1 < units.length && value >= 999.5 * scale; ++unit)
    scale *= step;
  const shown = value / scale;
  const digits = shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
  return (shown < 999999 ? shown.toFixed(digits) : shown.toExponential(2)) + units[unit];
}
const seconds = (value) => scaled(value, 1e-9, 1000, [" ns", " us", " ms", " s"]);
const amount = (value) => scaled(value, 1, 1000, ["", " K", " M", " G", " T", " P"]);
const bytes = (value) => scaled(value, 1, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
const share = (part, all) => (all > 0 ? (100 * part / all).toFixed(1) : "0.0") + " %";
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function chooser(select, options, changed) {
  for (const [value, text] of options)
    select.append(el("option", { value }, text));
  select.addEventListener("change", changed);
}

/// Lets users inspect the items of a drawing by pointer, by touch and with the
/// arrow keys. `at(x, y)` returns the item at a position in fractions of the
/// drawing's size, or -1; `count()`, `text(item)` and `mark(item)` refer to
/// items in the order of the arrow keys.
function explorable(node, label, readout, { count, at, text, mark }) {
  let current = -1;
  fill(node, { role: "slider", tabindex: "0", "aria-label": label, "aria-valuemin": 1, "aria-valuenow": 1, "aria-valuetext": "none chosen" }, []);
  const show = (item) => {
    if (item < 0 || item >= count())
      return;
    current = item;
    fill(node, { "aria-valuemax": count(), "aria-valuenow": item + 1, "aria-valuetext": text(item) }, []);
    readout.textContent = text(item);
    mark(item);
  };
  const point = (event) => {
    const box = node.getBoundingClientRect();
    show(at((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height));
  };
  node.addEventListener("pointermove", point);
  node.addEventListener("pointerdown", point);
  node.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: current + 1, ArrowUp: current + 1, ArrowLeft: Math.max(current - 1, 0), ArrowDown: Math.max(current - 1, 0), Home: 0, End: count() - 1 };
    if (!(event.key in steps))
      return;
    event.preventDefault();
    show(Math.min(steps[event.key], count() - 1));
  });
  const reset = () => {
    current = -1;
    readout.replaceChildren(el("span", { class: "hint" }, hint));
  };
  reset();
  return reset;
}

/// Returns a name such as "blk.3.ffn_experts".
const spanName = (phase, [row, layer]) => (layer < 0 ? "" : `blk.${layer}.`) + phase.rows[row].part;

/// Draws a step's queues, in total or for one layer. `colorOf(row)` is a CSS color.
function drawTimeline(into, phase, title, colorOf) {
  const { spans, queues, seconds: all } = phase.timeline;
  const scale = all / 1e9;
  const layers = [...new Set(spans.map((span) => span[1]))].filter((layer) => layer >= 0).sort((a, b) => a - b);
  const zoom = el("select");
  const axis = el("div", { class: "axis", "aria-hidden": "true" });
  const readout = el("output", { class: "readout" });
  const lanes = [];
  const redraw = () => {
    const layer = zoom.value === "" ? -1 : Number(zoom.value);
    const shown = layer < 0 ? spans : spans.filter((span) => span[1] === layer);
    const begin = layer < 0 ? 0 : Math.min(...shown.map((span) => span[3]));
    const end = layer < 0 ? 1e9 : Math.max(...shown.map((span) => span[3] + span[4]));
    const width = Math.max(end - begin, 1);
    for (const lane of lanes)
      lane(begin, width);
    const ticks = 4;
    axis.replaceChildren(...Array.from({ length: ticks + 1 }, (_, i) =>
      el("span", { style: `left:${100 * i / ticks}%` }, seconds((begin + width * i / ticks) * scale))));
  };
  chooser(zoom, [["", "the whole step"], ...layers.map((layer) => [layer, `layer ${layer}`])], redraw);
  const node = el("div", { class: "timeline" },
    el("header", {}, el("h3", {}, el("bdi", {}, phase.name)), el("p", {}, title), el("label", {}, "Show ", zoom)));
  queues.forEach((queue, index) => {
    const own = spans.filter((span) => span[2] === index);
    if (own.length === 0)
      return;
    const name = queue.device + (queue.kind === "copy" ? " copies" : "");
    const picture = svg("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none" });
    let begin = 0, width = 1e9, seen = own, chosen = null;
    const reset = explorable(picture, `${phase.name}: ${name}`, readout, {
      count: () => seen.length,
      at: (x) => {
        const time = begin + x * width;
        return seen.findLastIndex((span) => span[3] <= time);
      },
      text: (item) => {
        const span = seen[item], row = phase.rows[span[0]];
        return `${spanName(phase, span)} on ${name}, ${row.kernel}: ${seconds(span[4] * scale)} from ${seconds(span[3] * scale)}`;
      },
      mark: (item) => {
        const [, , , start, length] = seen[item];
        fill(chosen, { x: 1000 * (start - begin) / width, width: Math.max(1000 * length / width, 1) }, []);
      },
    });
    lanes.push((from, size) => {
      begin = from;
      width = size;
      // Without what only touches the ends: the layer before and the next one.
      seen = own.filter((span) => span[3] + Math.max(span[4], 1) > from && span[3] < from + size);
      const paths = new Map();
      for (const [row, , , start, length] of seen) {
        const x = (1000 * (start - begin) / width).toFixed(2), w = Math.max(1000 * length / width, 0.6).toFixed(2);
        paths.set(colorOf(phase.rows[row]), (paths.get(colorOf(phase.rows[row])) ?? "") + `M${x} 0h${w}v10h-${w}z`);
      }
      chosen = svg("rect", { class: "chosen", y: 0, height: 10, width: 0, x: 0, "vector-effect": "non-scaling-stroke" });
      picture.replaceChildren(...[...paths].map(([color, d]) => svg("path", { d, fill: color })), chosen);
      reset();
    });
    node.append(el("div", { class: "lane" },
      el("b", {}, el("bdi", {}, name), el("small", {}, `busy ${share(queue.busy_seconds, all)}`)), picture));
  });
  node.append(axis, readout);
  into.append(node);
  redraw();
}

/// Returns the bytes for an op's intensity: weights and cache, or activations if it reads neither.
const roofBytes = (row) => row.weight_bytes + row.kv_bytes || row.activation_bytes;
const canBePlotted = (row) => row.flops > 0 && row.seconds > 0 && roofBytes(row) > 0;

/// Draws the roofline. `points`: {row, phase, x, y, color, shape, size, text};
/// `roofs`: {device, color, bandwidth, peak}.
function drawRoofline(picture, points, roofs) {
  const width = Math.max(picture.clientWidth, 240), height = picture.clientHeight;
  const left = 62, right = 24, top = 12, bottom = 42;
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const range = (values) => {
    const logs = values.filter((value) => value > 0).map(Math.log10);
    if (logs.length === 0)
      return [0, 1];
    return [Math.floor(Math.min(...logs) - 0.05), Math.ceil(Math.max(...logs) + 0.05)];
  };
  const [x0, x1] = range([...points.map((point) => point.x), ...roofs.map((roof) => roof.peak / roof.bandwidth)]);
  const [y0, y1] = range([...points.map((point) => point.y), ...roofs.map((roof) => roof.peak)]);
  const xOf = (value) => left + (Math.log10(value) - x0) / (x1 - x0) * (width - left - right);
  const yOf = (value) => height - bottom - (Math.log10(value) - y0) / (y1 - y0) * (height - top - bottom);
  const drawn = [];
  const stepOf = (from, to, room) => Math.max(1, Math.ceil((to - from) / Math.max(1, Math.floor(room))));
  for (let power = x0; power <= x1; power += stepOf(x0, x1, (width - left) / 60)) {
    const x = xOf(10 ** power);
    drawn.push(svg("line", { class: "grid", x1: x, x2: x, y1: top, y2: height - bottom }),
      svg("text", { x, y: height - bottom + 16, "text-anchor": "middle" }, power < 0 ? String(10 ** power) : amount(10 ** power).replace(/\.0+/, "")));
  }
  for (let power = y0; power <= y1; power += stepOf(y0, y1, (height - top) / 40)) {
    const y = yOf(10 ** power);
    drawn.push(svg("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }),
      svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, power < 0 ? `1e${power}` : amount(10 ** power).replace(/\.0+/, "")));
  }
  drawn.push(svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "FLOP for each byte read"),
    svg("text", { transform: `translate(12 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, "FLOP per second"));
  for (const { bandwidth, peak, color } of roofs) {
    // Begins where the slope enters the plot.
    const start = Math.max(10 ** x0, 10 ** y0 / bandwidth), ridge = Math.min(Math.max(peak / bandwidth, start), 10 ** x1);
    drawn.push(svg("path", { class: "roof", stroke: color, d: `M${xOf(start)} ${yOf(Math.min(start * bandwidth, peak))}L${xOf(ridge)} ${yOf(peak)}H${width - right}` }));
  }
  for (const point of points) {
    point.px = xOf(point.x);
    point.py = yOf(point.y);
    drawn.push(marker(point.shape, point.px, point.py, point.size, point.color));
  }
  const chosen = svg("circle", { class: "chosen", r: 0 });
  picture.replaceChildren(...drawn, chosen);
  return chosen;
}

/// Phases have different shapes, devices different colors.
const shapes = ["circle", "square", "triangle", "diamond"];
function marker(shape, x, y, r, color) {
  const attributes = { class: "mark", fill: color, stroke: color };
  if (shape === "circle")
    return svg("circle", { ...attributes, cx: x, cy: y, r });
  const corners = { square: [[-1, -1], [1, -1], [1, 1], [-1, 1]], triangle: [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]], diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]] }[shape];
  return svg("polygon", { ...attributes, points: corners.map(([dx, dy]) => `${x + dx * r},${y + dy * r}`).join(" ") });
}
