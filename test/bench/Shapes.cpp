//===- Shapes.cpp - Weight matrices for bench_gemm ------------------------===//

#include "test/bench/Shapes.h"

#include "kernels/Scratch.h"

#include <charconv>

namespace moek::bench {

namespace {

struct Model {
  std::string_view name;
  int64_t hidden, expert;
};
constexpr Model kModels[] = {
    {"deepseek-v2-lite", 2048, 1408},
    {"qwen3-30b-a3b", 2048, 768},
    {"mixtral", 4096, 14336},
};

/// Parses a whole decimal number above zero; returns 0 for anything else.
int64_t number(std::string_view text) {
  int64_t value = 0;
  const char *end = text.data() + text.size();
  auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && value > 0 ? value : 0;
}

} // namespace

std::optional<std::vector<Shape>> parseShapes(std::string_view text) {
  for (const Model &model : kModels)
    if (text == model.name)
      return std::vector<Shape>{{model.hidden, model.expert},
                                {model.expert, model.hidden}};
  size_t cross = text.find('x');
  if (cross == text.npos)
    return std::nullopt;
  Shape shape{number(text.substr(0, cross)), number(text.substr(cross + 1))};
  // Weights consist of repeated tiles of rows.
  if (shape.cols == 0 || shape.rows == 0 || shape.rows % kRowTile != 0)
    return std::nullopt;
  return std::vector<Shape>{shape};
}

std::string knownModels() {
  std::string names;
  for (const Model &model : kModels)
    names.append(names.empty() ? "" : ", ").append(model.name);
  return names;
}

} // namespace moek::bench
