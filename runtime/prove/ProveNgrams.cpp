// Proves what the kernels of n-gram tables assume about operands whose shapes
// depend on each other.
#include "kernels/Ngrams.h"
#include "runtime/prove/OpProof.h"

#include <cmath>

namespace moert {
namespace {
/// Proves that all numbers of a constant are integers from 0 to `most`.
void proveIntegers(OpProof &p, std::string_view operand, float most,
                   std::string_view rule) {
  for (float number : p.constant(operand))
    p.require(number >= 0 && number <= most && number == std::floor(number),
              rule);
}
} // namespace

void proveNgramEmbed(OpProof &p) {
  BufferRef out = p.buffer("out");
  const fb::Weight &table = p.matrix("table");
  int64_t size = p.integer("size"), heads = p.integer("heads");
  int64_t columns = moek::ngramColumns(size, heads);
  p.rows(p.buffer("tokens"), 1, 1);
  p.rows(out, 1, columns * table.cols());
  p.cacheRows("history", "a number's", 1);
  p.equal("the history's type", p.cache("history").type(), "that of F32",
          int64_t(moek::KvType::F32));
  // The proof does not cover token ids: the engine checks them against the
  // vocabulary before each step.
  if (p.has("map")) {
    p.equal("the map's length", int64_t(p.constant("map").size()),
            "the vocabulary", p.plan().vocab());
    proveIntegers(p, "map", float(kMaxParameter - 1),
                  "map has numbers below 2^24");
  }
  std::span<const float> hash = p.constant("hash");
  if (int64_t(hash.size()) !=
      moek::ngramNumbers(size, heads) * moek::kWideDigits)
    return p.require(false, "hash has a multiplier for each token of an n-gram "
                            "and a modulus and an offset for each row");
  proveIntegers(p, "hash", float((1 << moek::kWideBits) - 1),
                "hash has digits of 16 bits");
  const auto rows = uint64_t(table.rows());
  for (int64_t i = 0; i < columns; ++i) {
    uint64_t modulus = moek::wideNumber(hash.data(), size + i);
    uint64_t offset = moek::wideNumber(hash.data(), size + columns + i);
    p.require(modulus >= 1 && modulus <= rows && offset <= rows - modulus,
              "each modulus and offset give rows of the table");
  }
}

void proveGateStreams(OpProof &p) {
  BufferRef value = p.buffer("value");
  int64_t cols = value.perToken(), all = p.integer("streams") * cols;
  p.require(cols >= 1, "value has at least one row per token");
  p.rows(value, 1, cols);
  for (const char *name : {"q", "k", "out"})
    p.rows(p.buffer(name), 1, all);
}

} // namespace moert
