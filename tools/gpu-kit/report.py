"""report.jsonl as Markdown."""
import json


def read(path):
    """The last run of each step, and what the last run said of the machine."""
    head, steps = {}, {}
    with open(path) as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # The line was cut off while it was written.
            if line["part"] == "head":
                head = line
            else:
                steps.pop((line["part"], line["step"]), None)
                steps[line["part"], line["step"]] = line
    return {"head": head, "steps": list(steps.values())}


def table(columns, rows):
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns),
            *("| " + " | ".join(shown(cell) for cell in row) + " |" for row in rows), ""]


def shown(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(shown, value))
    return str(value).replace("|", "\\|").replace("\n", " ")


def summary(figures):
    """One cell for the figures of a step; tables of their own have the rest."""
    if isinstance(figures, list):
        return f"{len(figures)} rows"
    if not isinstance(figures, dict):
        return ""
    cells = []
    for key, value in figures.items():
        if isinstance(value, dict):
            cells.append(f"{key}: " + " ".join(f"{k} {shown(v)}" for k, v in value.items() if not isinstance(v, (dict, list))))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            cells.append(f"{key}: {len(value)} rows")
        elif value not in (None, [], ""):
            cells.append(f"{key}: {shown(value)}")
    return "; ".join(cells)


def of(report):
    head, steps = report["head"], report["steps"]
    lines = ["# A run of gpu-kit", ""]
    if head.get("gpu") == "software":
        lines += [f"**On the software GPU** ({head['why_software']}): correctness of what it covers; no time here means "
                  "anything.", ""]
    lines += table(["", ""], [(key, value) for key, value in head.items() if key not in ("part", "why_software", "notes")])
    lines += [f"* {note}" for note in head.get("notes", [])] + ["", "## Steps", ""]
    lines += table(["part", "step", "result", "seconds", "figures"],
                   [(line["part"], line["step"], line["status"] + (f": {line['why']}" if "why" in line else ""),
                     line["seconds"], summary(line.get("figures"))) for line in steps])
    for line in steps:
        lines += details(line)
    for line in steps:
        if "tail" in line:
            lines += [f"## The end of: {line['step']}", "", "```", line["tail"].replace("```", "'''"), "```", ""]
    return "\n".join(lines)


def details(line):
    figures, name = line.get("figures"), line["step"]
    if isinstance(figures, dict) and "rows" in figures:
        figures = figures["rows"]
    if isinstance(figures, list) and figures and all(isinstance(row, dict) for row in figures):
        columns = list(dict.fromkeys(key for row in figures for key in row))
        return [f"## {name}", "", *table(columns, [[row.get(column) for column in columns] for row in figures])]
    if not isinstance(figures, dict) or not figures.get("bench"):
        return []
    lines = [f"## {name}", "", "Random weights: texts mean nothing, and which experts are chosen follows from them.", ""]
    rows = {}
    for row in figures["bench"]:
        rows.setdefault((row["threads"], row["depth"]), {})[row["test"]] = row["tokens_per_second"]
    lines += table(["threads", "depth", "prompt, tokens/s", "decode, tokens/s"],
                   [(*key, tests.get("prompt"), tests.get("decode")) for key, tests in rows.items()])
    if "decode_without_prefetch" in figures:
        lines += [f"Without weights that launches bring into L2 for later ones (`--no-gpu-prefetch`), decode at the first depth: "
                  f"{figures['decode_without_prefetch']:.1f} tokens/s.", ""]
    if figures["by_part"]:
        lines += ["A step by part, milliseconds; measured one instruction after another:", ""]
        lines += table(["phase", "part", "predicted", "measured"],
                       [(row["phase"], row["part"], row["predicted_ms"], row["measured_ms"]) for row in figures["by_part"]])
    return lines


def write(lines, path):
    with open(path, "w") as file:
        file.write(of(read(lines)) + "\n")
