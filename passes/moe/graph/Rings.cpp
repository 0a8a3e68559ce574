#include "passes/moe/graph/Rings.h"

#include "kernels/Ring.h"
#include "passes/moe/Support.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
/// How many rows whoever reads the cache sees at most; 0: all.
int64_t windowOf(CacheOpInterface cache) {
  int64_t most = 0;
  for (Operation *reader : cache.getCache().getUsers()) {
    int64_t window = 0;
    if (auto attention = dyn_cast<GqaAttentionOp>(reader))
      window = int64_t(attention.getWindow());
    else if (auto sparse = dyn_cast<SparseAttentionOp>(reader);
             sparse && sparse.getEntries() != cache.getCache())
      window = int64_t(sparse.getWindow());
    if (window == 0)
      return 0;
    most = std::max(most, window);
  }
  return most;
}

bool hasCache(Operation *function) {
  return function
      ->walk([](CacheOpInterface) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Whether some cache of the function has a row for every position: pages are
/// counted by it.
bool seesAll(Operation *function) {
  return function
      ->walk([](CacheOpInterface op) {
        return windowOf(op) == 0 ? WalkResult::interrupt()
                                 : WalkResult::advance();
      })
      .wasInterrupted();
}

int64_t bytesOfState(StateOpInterface op, int64_t slots) {
  return op.getStateWidth() * int64_t(sizeof(float)) * slots;
}
} // namespace

int64_t moe::ringRowsOf(CacheOpInterface op) {
  int64_t window = windowOf(op), context = 0, sequences = 1, tokens = 1;
  auto module = op->getParentOfType<ModuleOp>();
  for (auto function : module.getOps<func::FuncOp>())
    if (PhaseAttr phase = phaseOf(function)) {
      context = std::max(context, phase.getContextLength());
      sequences = std::max(sequences, phase.getSequences());
      if (hasCache(function))
        tokens = std::max(tokens, phase.getMaxTokens());
    }
  auto type = cast<KvType>(op.getCache().getType());
  bool isSplit = type.getElement() == moek::KvType::Q8_0 &&
                 type.getWidth() % moek::kKvBlock != 0;
  if (window == 0 || context == 0 || isSplit)
    return 0;
  int64_t rows = moek::kvRingRows(window, tokens);
  bool isLess = rows * stateRowsOf(sequences) < kvRowsOf(context, sequences);
  return isLess && seesAll(op->getParentOfType<func::FuncOp>()) ? rows : 0;
}

int64_t moe::cacheBytesOf(CacheOpInterface op, int64_t rows) {
  int64_t ring = ringRowsOf(op);
  return ring ? op.getCacheBytes(ring) *
                    stateRowsOf(op->getParentOfType<ModuleOp>())
              : op.getCacheBytes(rows);
}

int64_t moe::kvPageBytes(ModuleOp module) {
  int64_t most = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    int64_t bytes = 0;
    function.walk([&](CacheOpInterface op) {
      if (ringRowsOf(op) == 0)
        bytes += op.getCacheBytes(moek::kKvPage);
    });
    most = std::max(most, bytes);
  }
  return most;
}

int64_t moe::stateBytes(ModuleOp module) {
  int64_t most = 0, slots = stateRowsOf(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    int64_t bytes = 0;
    function.walk([&](Operation *op) {
      if (auto state = dyn_cast<StateOpInterface>(op))
        bytes += bytesOfState(state, slots);
      if (auto cache = dyn_cast<CacheOpInterface>(op))
        if (int64_t ring = ringRowsOf(cache))
          bytes += cache.getCacheBytes(ring) * slots;
    });
    most = std::max(most, bytes);
  }
  return most;
}
