"""A profile as moert profile-router writes it, with a gate mass that is given.

Experts are alike, or with --hot a few of each layer, others in each, are chosen most: expert e of layer l by
about 1 / (1 + (5 e + 3 l) mod E) of the choices."""
import argparse
import json

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--layers", default="1,2,3")
parser.add_argument("--experts", type=int, default=32)
parser.add_argument("--used", type=int, default=6)
parser.add_argument("--mass", default="0.5,0.2,0.1,0.1,0.06,0.04", help="by rank")
parser.add_argument("--flat", type=int, default=-1, help="a layer whose experts matter alike")
parser.add_argument("--hot", action="store_true", help="some experts are used more than others")
parser.add_argument("--frequency", help="of every expert of each layer, instead")
args = parser.parse_args()


def frequencies(layer):
    if args.frequency:
        return [float(part) for part in args.frequency.split(",")]
    parts = [1 / (1 + (5 * expert + 3 * layer) % args.experts) if args.hot else 1 for expert in range(args.experts)]
    # Rounded to thousandths, as for a text of 1000 tokens.
    return [min(1, round(1000 * args.used * part / sum(parts)) / 1000) for part in parts]


mass = [float(part) for part in args.mass.split(",")]
layers = [{"layer": layer, "experts": args.experts, "experts_used": args.used, "tokens": 1000,
           "frequency": frequencies(layer), "mass_by_rank": [1 / args.used] * args.used if layer == args.flat else mass}
          for layer in map(int, args.layers.split(","))]
print(json.dumps({"kind": "moert router profile", "version": 1, "layers": layers}, indent=1))
