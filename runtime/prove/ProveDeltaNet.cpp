// Proves what the kernels of gated delta nets assume about operands whose
// shapes depend on each other.
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
  int64_t taps = p.integer("taps"), cols = x.perToken();
  p.require(cols >= 1, "x has at least one row per token");
  p.vectors("weight", cols, taps);
  p.state("state", (taps - 1) * cols);
  p.rows(out, 1, cols);
}

void proveDeltaGates(OpProof &p) {
  BufferRef beta = p.buffer("beta");
  BufferRef alpha = p.buffer("alpha");
  BufferRef out = p.buffer("out");
  int64_t heads = beta.perToken();
  p.require(heads >= 1, "beta has at least one row per token");
  p.rows(alpha, 1, heads);
  p.vector("a", heads);
  p.vector("dt", heads);
  p.rows(out, 1, 2 * heads);
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
  p.rows(gates, 1, 2 * heads);
  p.rows(out, 1, heads * value);
  p.require(heads * value <= kMaxParameter,
            "heads * value does not exceed the limit of a parameter");
  p.state("state", begin + heads * value * key);
}

} // namespace moert
