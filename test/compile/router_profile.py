"""A profile as moert profile-router writes it, with a gate mass that is given."""
import argparse
import json

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--layers", default="1,2,3")
parser.add_argument("--experts", type=int, default=32)
parser.add_argument("--used", type=int, default=6)
parser.add_argument("--mass", default="0.5,0.2,0.1,0.1,0.06,0.04", help="by rank")
parser.add_argument("--flat", type=int, default=-1, help="a layer whose experts matter alike")
args = parser.parse_args()
mass = [float(part) for part in args.mass.split(",")]
layers = [{"layer": layer, "experts": args.experts, "experts_used": args.used, "tokens": 10,
           "mass_by_rank": [1 / args.used] * args.used if layer == args.flat else mass}
          for layer in map(int, args.layers.split(","))]
print(json.dumps({"kind": "moert router profile", "version": 1, "layers": layers}, indent=1))
