//===- Shapes.h - Weight matrices to measure gemms with ---------*- C++ -*-===//

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

/// What `text` says: COLSxROWS, or a model whose routed experts' two shapes it
/// stands for. Nothing if it is neither, or the rows are no multiple of 64.
std::optional<std::vector<Shape>> parseShapes(std::string_view text);

/// The models' names, for a help text.
std::string knownModels();

} // namespace moek::bench

#endif // MOE_TEST_BENCH_SHAPES_H
