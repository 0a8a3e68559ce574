#!/usr/bin/env python3
"""Checks that the figures of a profile by moert profile-router add up.  router_profile.py FILE.json"""
import json
import math
import sys

profile = json.load(open(sys.argv[1]))
assert profile["kind"] == "moert router profile" and profile["version"] == 1
assert len(profile["model_hash"]) == 32 and profile["tokens"] > 100
assert [layer["layer"] for layer in profile["layers"]] == [1, 2, 3]
for layer in profile["layers"]:
    tokens, used, experts = layer["tokens"], layer["experts_used"], layer["experts"]
    assert tokens == profile["tokens"] and (used, experts) == (6, 32) == (profile["experts_used"], profile["experts"])
    assert len(layer["counts"]) == len(layer["gate_mass"]) == experts and len(layer["mass_by_rank"]) == used
    assert sum(layer["counts"]) == tokens * used and max(layer["counts"]) <= tokens
    assert all(math.isclose(frequency * tokens, count) for frequency, count in zip(layer["frequency"], layer["counts"]))
    assert math.isclose(sum(layer["gate_mass"]), 1, rel_tol=1e-6)
    assert all(mass <= frequency for mass, frequency in zip(layer["gate_mass"], layer["frequency"]))
    assert math.isclose(sum(layer["mass_by_rank"]), 1, rel_tol=1e-6)
    assert layer["mass_by_rank"] == sorted(layer["mass_by_rank"], reverse=True) and layer["mass_by_rank"][-1] > 0
    reuse = layer["reuse_distance"]
    assert len(reuse["histogram"]) == experts
    assert reuse["first_uses"] == sum(count > 0 for count in layer["counts"])
    assert reuse["first_uses"] + sum(reuse["histogram"]) == tokens * used
    # A text does not use all trained experts equally.
    assert max(layer["counts"]) > 1.2 * tokens * used / experts
