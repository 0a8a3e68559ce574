// Proves what the kernels of gated delta nets assume about operands whose
// shapes depend on each other.
#include "kernels/Abi.h"
#include "runtime/plan/Verify.h"
#include "runtime/prove/OpProof.h"

namespace moert {
void proveRegroup(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t groups = p.integer("groups");
  int64_t offset = p.integer("offset");
  int64_t parts = p.integer("first") + p.integer("second") + p.integer("third");
  p.require(x.perToken() % groups == 0, "the groups divide the columns");
  p.require(offset + parts <= x.perToken() / groups,
            "the parts lie inside a group");
  p.rows(out, 1, groups * parts);
}

void proveShortConv(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  const bool inParts = p.has("second");
  int64_t taps = p.integer("taps"), part = x.perToken();
  int64_t cols = inParts ? 3 * part : part;
  p.require(part >= 1, "x has at least one row per token");
  p.vectors("weight", part, taps);
  for (const char *name : {"second_weight", "third", "third_weight"})
    p.require(p.has(name) == inParts,
              "either both other parts are there with weights, or none");
  if (inParts) {
    p.rows(p.buffer("second"), 1, part);
    p.rows(p.buffer("third"), 1, part);
    p.vectors("second_weight", part, taps);
    p.vectors("third_weight", part, taps);
  }
  p.vector("bias", cols);
  int64_t before = (taps - 1) * p.integer("dilation");
  p.require(before <= moek::kMaxConvRows,
            "the first input is within the rows that kernels look back");
  p.state("state", before * cols);
  p.rows(out, 1, cols);
}

void proveDeltaGates(OpProof &p) {
  BufferRef alpha = p.buffer("alpha");
  BufferRef out = p.buffer("out");
  int64_t decays = alpha.perToken(), heads = out.perToken() - decays;
  p.require(heads >= 1 && decays >= 1 && decays % heads == 0,
            "each head has as many decays");
  if (p.has("beta"))
    p.rows(p.buffer("beta"), 1, heads);
  else
    p.require(decays == heads, "heads without beta have one decay");
  p.rows(alpha, 1, decays);
  p.vector("a", heads);
  p.vector("dt", decays);
  p.rows(out, 1, heads + decays);
}

void proveDeltaRule(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef gates = p.buffer("gates");
  BufferRef out = p.buffer("out");
  int64_t keyHeads = p.integer("key_heads"), heads = p.integer("heads");
  int64_t key = p.integer("key"), value = p.integer("value");
  int64_t begin = p.integer("begin");
  p.require(heads % keyHeads == 0, "key_heads divide the heads");
  p.rows(x, 1, 2 * keyHeads * key + heads * value);
  p.rows(gates, 1, heads + heads * (p.boolean("channels") ? key : 1));
  p.rows(out, 1, heads * value);
  p.require(!p.has("skip") || p.boolean("sums"), "skip comes with sums");
  p.vector("skip", heads);
  p.require(heads * value <= kMaxParameter,
            "heads * value does not exceed the limit of a parameter");
  p.state("state", begin + heads * value * key);
}

} // namespace moert
