#include "runtime/engine/Pooling.h"

#include "runtime/base/Text.h"

#include <cmath>
#include <fmt/format.h>

namespace moert {

std::optional<Pooling> poolingOf(std::string_view name) {
  if (name == "mean")
    return Pooling::Mean;
  if (name == "last")
    return Pooling::Last;
  return std::nullopt;
}

StatusOr<Pooling> trainedPooling(std::string_view name) {
  if (name.empty())
    return Pooling::Mean;
  if (std::optional<Pooling> known = poolingOf(name))
    return *known;
  return Status(StatusCode::Unsupported,
                fmt::format("the model makes embeddings by pooling {}, which "
                            "is not implemented; choose mean or last pooling "
                            "(moert serve --pooling) to embed texts anyway",
                            moert::quoted(name)));
}

void PooledState::add(std::span<const float> state) {
  if (pooling_ == Pooling::Last || sum_.empty()) {
    sum_.assign(state.begin(), state.end());
    return;
  }
  for (size_t i = 0; i < state.size(); ++i)
    sum_[i] += state[i];
}

std::vector<float> PooledState::vector() const {
  double squares = 0;
  for (double value : sum_)
    squares += value * value;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> result;
  for (double value : sum_)
    result.push_back(float(value * scale));
  return result;
}

} // namespace moert
