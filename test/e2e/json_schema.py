"""Compares grammars of JSON schemas with the PyPI package jsonschema, format checks included.

    json_schema.py ACCEPT_TEXTS [--suite=FOLDER] [--random=N] [--hypothesis=N] [--seed=K] [--tokens] [--verbose]

ACCEPT_TEXTS is the program moe-accept-texts. FOLDER has the tests of JSON Schema's own suite for a
draft (tests/draft2020-12), and is left out if it does not exist. --random draws N schemas and
instances; --hypothesis takes instances of N schemas from the PyPI package hypothesis-jsonschema, if
it is installed. Every instance is written in a random spelling: order of members, white space, escapes,
forms of numbers. Numbers are judged as they are written, as decimals and not as doubles. Prints how
many schemas are held, the refusals by keyword, and every instance about which the two do not agree;
fails if there is one, or fewer than 95 % are held.
"""
import argparse
import collections
import copy
import glob
import json
import random
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

from jsonschema import Draft202012Validator, ValidationError, validators

IN_PLACE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$ref", "$dynamicRef",
            "unevaluatedProperties", "dependencies", "unevaluatedItems", "contains"}


def is_integer(_, value):
    return not isinstance(value, bool) and (
        isinstance(value, int) or isinstance(value, Decimal) and value == value.to_integral_value())


def multiple_of(_, divisor, value, __):
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool) and Fraction(value) % Fraction(divisor):
        yield ValidationError("not a multiple")


Judge = validators.extend(Draft202012Validator, {"multipleOf": multiple_of},
                          type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer))
BY_NAME = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
LISTS = {"allOf", "anyOf", "oneOf", "prefixItems"}
ONE = {"additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems",
       "unevaluatedProperties"}


def schemas_of(schema):
    """All schemas inside a schema, itself included."""
    if not isinstance(schema, dict):
        return
    yield schema
    for word, value in schema.items():
        if word in BY_NAME and isinstance(value, dict):
            for each in value.values():
                yield from schemas_of(each)
        elif word in LISTS and isinstance(value, list):
            for each in value:
                yield from schemas_of(each)
        elif word in ONE:
            yield from schemas_of(value)


def with_additional(schema, value):
    """The schema with what it does not say about additional members written out."""
    schema = copy.deepcopy(schema)
    for each in schemas_of(schema):
        if "properties" in each and "additionalProperties" not in each:
            each["additionalProperties"] = value
            # Required names that have no schema are not forbidden.
            if value is False:
                for name in each.get("required", []):
                    each["properties"].setdefault(name, True)
    return schema


def spelled_text(text, rng):
    result = ""
    for c in text:
        way = rng.random()
        if way < 0.1:
            units = c.encode("utf-16-be", "surrogatepass")
            for i in range(0, len(units), 2):
                digits = "%02x%02x" % (units[i], units[i + 1])
                result += "\\u" + (digits.upper() if rng.random() < 0.5 else digits)
        elif c == "/" and way < 0.5:
            result += "\\/"
        else:
            result += json.dumps(c, ensure_ascii=False)[1:-1]
    return '"' + result + '"'


def spelled(value, rng):
    """A random spelling of a value."""
    def space():
        return "".join(rng.choice(" \n\t\r") for _ in range(rng.choice((0, 0, 0, 1, 1, 3))))

    if isinstance(value, str):
        return spelled_text(value, rng)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        if abs(value) < 10**15 and rng.random() < 0.3:
            return rng.choice(["%d.0", "%d.00", "%de0", "%dE+0", "%d.0e+00", format(Decimal(value), "e") if value else "0"]
                              ).replace("%d", str(value))
        return json.dumps(value)
    if isinstance(value, float):
        exact = Decimal(repr(value))
        return rng.choice([form for form in (repr(value), "%.12g" % value, format(exact, "e")) if Decimal(form) == exact])
    if isinstance(value, list):
        return "[" + space() + ",".join(space() + spelled(each, rng) + space() for each in value) + "]"
    members = list(value.items())
    rng.shuffle(members)
    return "{" + space() + ",".join(
        space() + spelled_text(name, rng) + space() + ":" + space() + spelled(each, rng) + space()
        for name, each in members) + "}"


def suite_cases(folder):
    for path in sorted(glob.glob(folder + "/*.json") + glob.glob(folder + "/optional/format/*.json")):
        for group in json.load(open(path)):
            yield path[len(folder) + 1:-5], group["schema"], [test["data"] for test in group["tests"]]


def random_value(rng, depth=0):
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind < 2:
        return rng.choice(["", "a", "ab", "abc", "red", "x-1", "caf\u00e9", "\U0001f44d", "2024-02-29", "2023-02-29",
                           "a/b", "\"q\"", "A1B2", "foo@bar", "line\nend"])
    if kind < 4:
        return rng.choice([0, 1, 2, 3, 5, 10, 15, 42, 99, 100, 101, -1, -7, 2**40, 10**12])
    if kind == 4:
        return rng.choice([0.5, 1.5, 2.25, -0.1, 1e-3, 1e20, 3.0, 99.99, 100.5])
    if kind == 5:
        return rng.choice([True, False])
    if kind == 6:
        return None
    if kind == 7:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {name: random_value(rng, depth + 1) for name in rng.sample("abcde", rng.randrange(4))}


def random_schema(rng, depth=0):
    """Schemas of all keywords, most of which fit their type."""
    if depth > 3 or rng.random() < 0.05:
        return rng.choice([True, {}, {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "null"}])
    def inner():
        return random_schema(rng, depth + 1)

    def bounds(low, high, names):
        one, two = sorted((rng.choice(low), rng.choice(high)))
        return {name: value for name, value in zip(names, (one, two)) if rng.random() < 0.6}

    def text():
        result = {"type": "string"}
        if rng.random() < 0.4:
            result.update(bounds([0, 1, 2], [2, 3, 10, 10000], ("minLength", "maxLength")))
        if rng.random() < 0.3:
            result["pattern"] = rng.choice(["^a", "b$", "^[a-z]+$", "[0-9]", "^(?=.*[a-z]).*$", "^(red|ab)$", "\\bab", "^.{2,3}$"])
        if rng.random() < 0.15:
            result["format"] = rng.choice(["date", "email", "uuid", "ipv4", "time", "date-time", "unknown"])
        return result

    def number():
        result = {"type": rng.choice(["integer", "number", ["integer", "null"]])}
        if rng.random() < 0.6:
            result.update(bounds([-10, 0, 1, 0.5], [3, 10, 100, 99.5], rng.choice(
                [("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")])))
        if rng.random() < 0.3:
            result["multipleOf"] = rng.choice([2, 3, 5, 0.5, 0.1, 0.01])
        return result

    def items():
        result = {"type": "array"}
        if rng.random() < 0.7:
            result["items"] = inner()
        if rng.random() < 0.2:
            result["prefixItems"] = [inner() for _ in range(rng.randrange(1, 3))]
        if rng.random() < 0.3:
            result.update(bounds([0, 1], [1, 2, 3], ("minItems", "maxItems")))
        if rng.random() < 0.2:
            result["uniqueItems"] = True
        if rng.random() < 0.15:
            result["contains"] = inner()
        return result

    def members():
        names = rng.sample("abcde", rng.randrange(1, 5))
        result = {"type": "object", "properties": {name: inner() for name in names}}
        if rng.random() < 0.6:
            result["required"] = rng.sample("abcde" if rng.random() < 0.2 else names, rng.randrange(1, len(names) + 1))
        if rng.random() < 0.3:
            result["additionalProperties"] = rng.choice([True, False, inner()])
        if rng.random() < 0.15:
            result["patternProperties"] = {rng.choice(["^a", "[de]", "^[a-c]$"]): inner()}
        if rng.random() < 0.1:
            result["propertyNames"] = rng.choice([{"maxLength": 1}, {"pattern": "^[a-d]"}, {"enum": ["a", "b", "c"]}])
        if rng.random() < 0.1:
            result.update(bounds([0, 1], [2, 3], ("minProperties", "maxProperties")))
        if rng.random() < 0.1:
            result["dependentRequired"] = {names[0]: ["e"]}
        return result

    def combined():
        way = rng.randrange(7)
        if way == 0:
            return {"anyOf": [inner() for _ in range(rng.randrange(1, 4))]}
        if way == 1:
            return {"oneOf": [inner() for _ in range(rng.randrange(1, 4))]}
        if way == 2:
            return {"allOf": [inner() for _ in range(rng.randrange(1, 3))]}
        if way == 3:
            return {"not": inner()}
        if way == 4:
            return {"if": inner(), "then": inner(), "else": inner()}
        return {"enum": [random_value(rng) for _ in range(rng.randrange(1, 5))]}

    result = rng.choice([text, number, items, members, members, combined])()
    if rng.random() < 0.15:
        result.update(combined())
    if rng.random() < 0.05:
        result.pop("type", None)
    return result


def instances_of(schema, rng):
    """Values that often satisfy a schema, and others."""
    def made(schema, depth=0):
        if not isinstance(schema, dict) or depth > 6 or rng.random() < 0.06:
            return random_value(rng)
        for word in ("anyOf", "oneOf"):
            if word in schema and rng.random() < 0.9:
                merged = {k: v for k, v in schema.items() if k != word}
                branch = rng.choice(schema[word])
                return made({**merged, **branch} if isinstance(branch, dict) else merged, depth + 1)
        if "allOf" in schema:
            merged = {k: v for k, v in schema.items() if k != "allOf"}
            for branch in schema["allOf"]:
                if isinstance(branch, dict):
                    merged = {**branch, **merged}
            return made(merged, depth + 1)
        if "enum" in schema:
            return rng.choice(schema["enum"] or [None])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kind, list):
            kind = rng.choice(kind)
        if kind == "object":
            result = {}
            for name, each in schema.get("properties", {}).items():
                if name in schema.get("required", []) or rng.random() < 0.5:
                    result[name] = made(each, depth + 1)
            for name in schema.get("required", []):
                result.setdefault(name, random_value(rng))
            if rng.random() < 0.2:
                result[rng.choice("abcdef")] = random_value(rng)
            return result
        if kind == "array":
            first = [made(each, depth + 1) for each in schema.get("prefixItems", [])]
            count = rng.randrange(schema.get("minItems", 0), max(schema.get("minItems", 0), 3) + 1)
            rest = [made(schema.get("items", True), depth + 1) for _ in range(count)]
            return (first + rest)[:schema.get("maxItems", 9)]
        if kind == "integer":
            return rng.choice([0, 1, 2, 3, 4, 5, 6, 10, 30, 99, 100, -5])
        if kind == "number":
            return rng.choice([0, 0.5, 1, 1.5, 2, 3, 10, 9.99, 0.3, 12.25])
        if kind == "string":
            return random_value(random.Random(rng.random())) if rng.random() < 0.1 else rng.choice(
                ["a", "ab", "abc", "red", "b", "x ab", "aab", "2024-02-29", "10:00:00Z", "foo@bar", "1.2.3.4", "", "zz9",
                 "2024-01-01T10:00:00Z", "123e4567-E89B-12d3-a456-426614174000"])
        if kind == "boolean":
            return rng.choice([True, False])
        if kind == "null":
            return None
        return random_value(rng)
    return [made(schema) for _ in range(8)]


def random_cases(count, rng):
    for _ in range(count):
        schema = random_schema(rng)
        yield "random", schema, instances_of(schema, rng)


def hypothesis_cases(cases, count):
    """Instances that hypothesis-jsonschema makes for the first schemas."""
    try:
        import warnings

        from hypothesis import HealthCheck, given, settings
        from hypothesis_jsonschema import from_schema
    except ImportError:
        return
    warnings.simplefilter("ignore")
    for source, schema, _ in cases[:count]:
        found = []
        try:
            @settings(max_examples=12, database=None, deadline=None, derandomize=True,
                      suppress_health_check=list(HealthCheck))
            @given(from_schema(schema))
            def collect(value):
                found.append(value)
            collect()
        except Exception:  # hypothesis cannot make instances of some schemas.
            pass
        if found:
            yield "hypothesis " + source, schema, found


def is_judged(schema):
    """Whether the package checks the formats of a schema: for some it needs others."""
    known = Draft202012Validator.FORMAT_CHECKER.checkers
    formats = {each.get("format") for each in schemas_of(schema)}
    # jsonschema knows more than the grammar about names with characters beyond ASCII.
    checked = {"date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "email", "idn-email", "hostname", "uri",
               "uri-reference", "iri", "iri-reference", "uri-template", "json-pointer", "relative-json-pointer"}
    return not formats & (checked - set(known) | {"idn-hostname"})


def accepts(schema, text):
    """Whether a schema accepts the value that a text has."""
    schema, value = (json.loads(each, parse_float=Decimal) for each in (json.dumps(schema), text))
    try:
        return Judge(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).is_valid(value)
    except Exception:
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--suite")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--hypothesis", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cases = list(suite_cases(options.suite)) if options.suite else []
    cases += random_cases(options.random, rng)
    if options.hypothesis:
        shuffled = random.Random(options.seed).sample(cases, len(cases))
        cases += hypothesis_cases(shuffled, options.hypothesis)

    inputs, judged = [], []
    for source, schema, values in cases:
        if not is_judged(schema):
            continue
        in_place = any(IN_PLACE & set(each) for each in schemas_of(schema))
        forms = [(schema, with_additional(schema, False))] if not in_place else []
        if not any("unevaluatedProperties" in each for each in schemas_of(schema)):
            opened = with_additional(schema, True)
            forms.append((opened, opened))
        else:
            forms.append((schema, schema))
        for asked, judge in forms[:1] if isinstance(schema, bool) else forms:
            texts = [spelled(value, rng) for value in values]
            answers = [accepts(judge, text) for text in texts]
            known = [(text, answer) for text, answer in zip(texts, answers) if answer is not None]
            if not known:
                continue
            texts = [text for text, _ in known]
            inputs.append(json.dumps([asked, texts]))
            judged.append((source, asked, texts, [answer for _, answer in known]))

    command = [options.program] + (["--tokens"] if options.tokens else [])
    done = subprocess.run(command, input="\n".join(inputs), stdout=subprocess.PIPE, text=True)
    output = done.stdout
    if done.returncode != 0:
        print("ended with", done.returncode, "at", inputs[len(output.splitlines())])
        sys.exit(1)
    held = wrong = instances = positive = 0
    refusals, wrong_by = collections.Counter(), collections.Counter()
    for (source, schema, texts, expected), line in zip(judged, output.splitlines()):
        answers = json.loads(line)
        if isinstance(answers, str):
            if not any(expected) and "no value fits" in answers:
                held += 1
                continue
            refusals[source + ": " + answers.split(": ", 1)[-1][:60]] += 1
            if options.verbose:
                print("refused", source, json.dumps(schema)[:300], answers)
            continue
        held += 1
        for text, ours, theirs in zip(texts, answers, expected):
            instances += 1
            positive += theirs
            if ours != theirs:
                wrong += 1
                wrong_by[source] += 1
                if options.verbose:
                    print("disagree", source, json.dumps(schema)[:600], text[:300], "ours:", ours)
    total = len(judged)
    print(f"{held} of {total} schemas held, {instances} instances ({positive} valid), {wrong} disagreements")
    for what, count in refusals.most_common():
        print("refused", count, what)
    for what, count in wrong_by.most_common():
        print("disagreements", count, what)
    sys.exit(1 if wrong or held < 0.95 * total else 0)


if __name__ == "__main__":
    main()
