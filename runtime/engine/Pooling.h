//===- Pooling.h - One vector for a text ------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_ENGINE_POOLING_H
#define MOE_RUNTIME_ENGINE_POOLING_H

#include "runtime/base/Status.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace moert {

/// How the hidden states of a text's tokens become its embedding. A plan names
/// what its model was trained for (Plan.pooling in runtime/schema/plan.fbs).
enum class Pooling {
  Mean, ///< Mean of all tokens.
  Last, ///< State of the last token, which alone has seen the whole text.
};

/// Returns the pooling that is called "mean" or "last"; none for other names.
std::optional<Pooling> poolingOf(std::string_view name);

/// Returns how a model embeds texts whose plan names its pooling so; "" is the
/// mean. Fails with Unsupported for a pooling that is not implemented.
StatusOr<Pooling> trainedPooling(std::string_view name);

/// Makes an embedding of hidden states, which come in the order of tokens.
class PooledState {
public:
  explicit PooledState(Pooling pooling) : pooling_(pooling) {}

  void add(std::span<const float> state);
  /// Forgets all states.
  void clear() { sum_.clear(); }
  /// Returns the embedding at length 1, as OpenAI's interface has it; zeros if
  /// all states were zero; empty before the first state.
  std::vector<float> vector() const;

private:
  Pooling pooling_;
  std::vector<double> sum_;
};

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_POOLING_H
