// Proves what the kernels of embedding, norms and matrix products assume about
// operands whose shapes depend on each other.
#include "runtime/prove/OpProof.h"

namespace moert {
void proveEmbed(OpProof &p) {
  BufferRef tokens = p.buffer("tokens");
  BufferRef out = p.buffer("out");
  const fb::Weight &table = p.matrix("table");
  // The proof does not cover token ids: the engine checks them against the
  // vocabulary before each step.
  p.equal("the table's row count", table.rows(), "the vocabulary",
          p.plan().vocab());
  p.rows(tokens, 1, 1);
  int64_t begin = p.integer("begin"), cols = out.perToken();
  int64_t block = moek::formatInfo(moek::Format(table.format())).blockElements;
  p.rows(out, 1, cols);
  p.require(cols >= 1 && begin + cols <= table.cols(),
            "the table has the columns that are read");
  p.require(begin % block == 0 && cols % block == 0,
            "whole blocks of the table are read");
}

void proveRopeTable(OpProof &p) {
  BufferRef out = p.buffer("out");
  p.rows(out, 1, 2 * int64_t(p.constant("inv_freq").size()));
}

void proveRmsNorm(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t groups = p.integer("groups");
  p.require(x.perToken() % groups == 0, "groups divide the columns of x");
  int64_t cols = x.perToken() / groups;
  p.require(p.has("weight") || !p.boolean("whole"),
            "whole says how long a weight is");
  p.vector("weight", p.boolean("whole") ? groups * cols : cols);
  p.rows(x, 1, groups * cols);
  p.rows(out, 1, groups * cols);
}

void proveQuantize(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  p.require(out.rowsPerToken >= 1, "out has at least one row per token");
  p.rows(x, out.rowsPerToken, out.cols);
  p.rows(out, out.rowsPerToken, out.cols);
}

void proveLinear(OpProof &p) {
  BufferRef act = p.buffer("act");
  BufferRef out = p.buffer("out");
  const fb::Weight &w = p.matrix("w");
  p.gemm("w", act);
  p.rows(act, 1, w.cols());
  p.vector("bias", w.rows());
  p.rows(out, 1, w.rows());
}

void proveGateUp(OpProof &p) {
  BufferRef act = p.buffer("act");
  BufferRef out = p.buffer("out");
  const fb::Weight &gate = p.matrix("gate"), &up = p.matrix("up");
  p.equal("up's row count", up.rows(), "gate's", gate.rows());
  p.equal("up's column count", up.cols(), "gate's", gate.cols());
  p.gemm("gate", act);
  p.gemm("up", act);
  p.vector("gate_bias", gate.rows());
  p.vector("up_bias", gate.rows());
  p.rows(act, 1, gate.cols());
  p.rows(out, 1, gate.rows());
}

/// Proves that gate and up have equal shapes, as they are combined element by
/// element.
static void proveFactors(OpProof &p) {
  BufferRef gate = p.buffer("gate");
  BufferRef up = p.buffer("up");
  BufferRef out = p.buffer("out");
  p.require(out.rowsPerToken >= 1, "out has at least one row per token");
  p.rows(gate, out.rowsPerToken, out.cols);
  p.rows(up, out.rowsPerToken, out.cols);
}

void proveActivationMul(OpProof &p) {
  if (p.has("up"))
    return proveFactors(p);
  BufferRef gate = p.buffer("gate");
  BufferRef out = p.buffer("out");
  p.require(out.rowsPerToken >= 1, "out has at least one row per token");
  p.rows(gate, out.rowsPerToken, out.cols);
}

void proveClampedMul(OpProof &p) { proveFactors(p); }

void proveGateMul(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef gate = p.buffer("gate");
  BufferRef out = p.buffer("out");
  int64_t cols = out.perToken(), gates = gate.perToken();
  p.require(cols >= 1, "out has at least one row per token");
  p.require(gates >= 1 && cols % gates == 0,
            "gates divide the columns of x into equal parts");
  p.rows(x, 1, cols);
  p.rows(gate, 1, gates);
}

void provePositionScale(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t cols = out.perToken();
  p.require(cols >= 1, "out has at least one row per token");
  p.rows(x, 1, cols);
}

void proveEmbedPositions(OpProof &p) {
  BufferRef out = p.buffer("out");
  const fb::Weight &table = p.matrix("table");
  p.rows(out, 1, table.cols());
  p.require(table.rows() >= p.plan().context(),
            "the table has a row for each position of a context");
}

void proveScale(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  int64_t cols = out.perToken();
  p.require(cols >= 1, "out has at least one row per token");
  p.rows(x, 1, cols);
}

void proveAdd(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef y = p.buffer("y");
  BufferRef out = p.buffer("out");
  int64_t cols = out.perToken();
  p.require(cols >= 1, "out has at least one row per token");
  p.rows(x, 1, cols);
  p.rows(y, 1, cols);
}

void proveCopy(OpProof &p) {
  BufferRef x = p.buffer("x");
  BufferRef out = p.buffer("out");
  p.require(x.encoding == out.encoding && x.cols == out.cols &&
                x.rowsPerToken == out.rowsPerToken &&
                x.fixedRows == out.fixedRows,
            "a copy has the same shape as its source");
}

} // namespace moert
