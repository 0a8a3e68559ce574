#!/usr/bin/env python3
"""Is a page of `moec explain --html` sound, and does it say what --json says?

  explain_page.py PAGE.html REPORT.json [--queues 'cpu0 compute,...']
"""
import argparse
import collections
import html.parser
import json
import math
import re

EMPTY = {"meta", "link", "input", "br"}
LOADS = {"src", "srcset", "href", "xlink:href", "data", "action", "poster", "background"}


class Page(html.parser.HTMLParser):
    """Elements that are closed in order, with identities of their own, that load nothing."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.refers, self.tags = [], set(), set(), collections.Counter()
        self.scripts, self.script = {}, None
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"
        assert self.refers <= self.ids, f"nothing is called {self.refers - self.ids}"

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        attributes = dict(attributes)
        for name, value in attributes.items():
            assert name not in LOADS or value.startswith(("#", "data:,")), f"<{tag} {name}={value}> loads something"
            assert not name.startswith("on"), f"{name} of <{tag}>"
        if "id" in attributes:
            assert attributes["id"] not in self.ids, f"two have the id {attributes['id']}"
            self.ids.add(attributes["id"])
        self.refers |= set(attributes.get("aria-labelledby", "").split())
        if attributes.get("href", "").startswith("#"):
            self.refers.add(attributes["href"][1:])
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "script":
            self.script = attributes.get("id", "code")
            self.scripts[self.script] = ""

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()
        self.script = None

    def handle_data(self, data):
        if self.script:
            self.scripts[self.script] += data
        assert "url(" not in data and "@import" not in data and "fetch(" not in data, "loads something"


def check_phase(page, report, queues):
    assert math.isclose(sum(row["seconds"] for row in page["rows"]), report["seconds"], rel_tol=1e-9, abs_tol=1e-15)
    assert sum(row["count"] for row in page["rows"]) == len(report["ops"])
    for key in ("weight_bytes", "activation_bytes", "kv_bytes", "flops"):
        assert math.isclose(sum(row[key] for row in page["rows"]), sum(op[key] for op in report["ops"]), rel_tol=1e-9), key
    # The number and the total seconds of each kind of alternative agree.
    rejected = [collections.Counter(), collections.Counter()]
    for totals, entries in zip(rejected, (page["rows"], report["ops"])):
        for entry in entries:
            for other in entry["rejected"]:
                assert set(other) == {"kind", "name", "of", "seconds", "chosen", "chosen_seconds", "reason"} and other["reason"]
                assert other["chosen"] == entry["device"] or other["kind"] != "device"
                totals[other["kind"], other["name"], "of"] += entry.get("count", 1)
                totals[other["kind"], other["name"]] += other["seconds"] or 0
    assert rejected[0].keys() == rejected[1].keys() and rejected[0]
    assert all(math.isclose(rejected[0][key], rejected[1][key], rel_tol=1e-9) for key in rejected[0])
    timeline, full = page["timeline"], report["timeline"]
    assert timeline["queues"] == full["queues"] and len(timeline["spans"]) == len(full["instructions"]) > 0
    used, ends = set(), collections.defaultdict(float)
    for span, instruction in zip(timeline["spans"], full["instructions"]):
        row, layer, queue, start, length = span
        part = page["rows"][row]["part"]
        assert instruction["op"] == (part if layer < 0 else f"blk.{layer}.{part}") and instruction["queue"] == queue
        assert abs(start / 1e9 * full["seconds"] - instruction["start"]) <= full["seconds"] * 1e-9
        assert abs(length / 1e9 * full["seconds"] - instruction["seconds"]) <= full["seconds"] * 1e-9
        assert instruction["start"] >= ends[queue], "begins before the one before it in its queue has ended"
        ends[queue] = instruction["start"] + instruction["seconds"]
        used.add(f"{full['queues'][queue]['device']} {full['queues'][queue]['kind']}")
    assert math.isclose(max(ends.values()), full["seconds"], rel_tol=1e-9)
    busy = sum(queue["busy_seconds"] for queue in full["queues"])
    assert full["seconds"] <= busy * (1 + 1e-9), "takes longer than one after the other"
    assert len(used) > 1 or math.isclose(full["seconds"], busy, rel_tol=1e-9), "one queue never waits"
    if queues and page["name"] in ("decode", "prefill"):
        # Copies of few rows run on the compute queue.
        expected = {q for q in queues if page["name"] == "prefill" or not q.endswith(" copy")}
        assert used == expected, used
        assert full["seconds"] < busy, "nothing overlaps"
        assert math.isclose(full["seconds"], report["seconds"], rel_tol=0.05), "not what the speeds are predicted from"
        assert any(row["copies"] for row in page["rows"])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("page")
    arguments.add_argument("report")
    arguments.add_argument("--queues", type=lambda text: text.split(","))
    arguments = arguments.parse_args()
    raw = open(arguments.page, "rb").read()
    text = raw.decode("ascii")
    assert re.fullmatch(r"[\n\x20-\x7e]*", text), "characters that drive something"
    assert len(raw) < 2_000_000
    page = Page(text)
    assert set(page.scripts) == {"facts", "code"}, page.scripts.keys()
    assert page.tags["svg"] == 1 and page.tags["table"] == 2
    for place in re.findall(r'byId\("([^"]*)"\)', page.scripts["code"]):
        assert place in page.ids, f"no element {place}"
    facts, report = json.loads(page.scripts["facts"]), json.load(open(arguments.report))
    for key, value in report.items():
        if key not in ("phases", "gpu_code"):
            assert facts[key] == value, key
    assert len(facts["phases"]) == len(report["phases"])
    reasons = set()
    for ours, theirs in zip(facts["phases"], report["phases"]):
        assert ours["name"] == theirs["name"]
        check_phase(ours, theirs, arguments.queues)
        reasons |= {facts["reasons"][row["reason"]] for row in ours["rows"]}
    assert reasons >= {op["reason"] for phase in report["phases"] for op in phase["ops"] if op["layer"] is None}


main()
