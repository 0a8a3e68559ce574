// What gated delta nets assume.
#include "runtime/plan/Verify.h"
#include "runtime/prove/OpProof.h"

namespace moert {
using moek::Encoding;

void proveRegroup(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t groups = p.positive("groups");
  int64_t offset = p.integer("offset", 0, kMaxParameter);
  int64_t parts = p.positive("first") + p.integer("second", 0, kMaxParameter) +
                  p.integer("third", 0, kMaxParameter);
  p.require(x.perToken() % groups == 0, "the groups divide the columns");
  p.require(offset + parts <= x.perToken() / groups,
            "the parts lie inside a group");
  p.rows(out, 1, groups * parts);
}

void proveShortConv(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t taps = p.integer("taps", 1, moek::kMaxTaps), cols = x.perToken();
  p.require(cols >= 1, "x has rows per token");
  p.vectors("weight", cols, taps);
  p.state("state", (taps - 1) * cols);
  p.rows(out, 1, cols);
}

void proveDeltaGates(OpProof &p) {
  BufferRef beta = p.buffer("beta", Encoding::F32);
  BufferRef alpha = p.buffer("alpha", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t heads = beta.perToken();
  p.require(heads >= 1, "beta has rows per token");
  p.rows(alpha, 1, heads);
  p.vector("a", heads);
  p.vector("dt", heads);
  p.rows(out, 1, 2 * heads);
}

void proveDeltaRule(OpProof &p) {
  BufferRef x = p.buffer("x", Encoding::F32);
  BufferRef gates = p.buffer("gates", Encoding::F32);
  BufferRef out = p.buffer("out", Encoding::F32);
  int64_t keyHeads = p.positive("key_heads"), heads = p.positive("heads");
  int64_t key = p.positive("key"), value = p.positive("value");
  int64_t begin = p.integer("begin", 0, kMaxParameter);
  p.boolean("tiled");
  p.require(p.real("eps") >= 0, "eps is not negative");
  p.require(heads % keyHeads == 0, "key_heads divide the heads");
  p.rows(x, 1, 2 * keyHeads * key + heads * value);
  p.rows(gates, 1, 2 * heads);
  p.rows(out, 1, heads * value);
  p.require(heads * value <= kMaxParameter, "a head's values are few");
  p.state("state", begin + heads * value * key);
}

} // namespace moert
