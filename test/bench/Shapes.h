//===- Shapes.h - Weight matrices for bench_gemm ----------------*- C++ -*-===//

#ifndef MOE_TEST_BENCH_SHAPES_H
#define MOE_TEST_BENCH_SHAPES_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moek::bench {

/// A weight [rows, cols]: `cols` inputs, `rows` outputs.
struct Shape {
  int64_t cols, rows;

  std::string name() const {
    return std::to_string(cols) + "x" + std::to_string(rows);
  }
};

/// Parses COLSxROWS, or the name of a model, which stands for the two shapes of
/// its routed experts. Returns nothing if `text` is neither, or if the number
/// of rows is no multiple of 64.
std::optional<std::vector<Shape>> parseShapes(std::string_view text);

/// Returns the names of the models, for a help text.
std::string knownModels();

} // namespace moek::bench

#endif // MOE_TEST_BENCH_SHAPES_H
