//===- TensorRole.h - The role of a tensor, by its GGUF name ----*- C++ -*-===//
//
// GGUF names tensors in the same way across architectures: "blk.N.NAME.weight"
// in a layer, "NAME.weight" outside. The name alone determines the part of the
// model that a tensor belongs to.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_IMPORT_TENSORROLE_H
#define MOE_COMPILER_IMPORT_TENSORROLE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace moec {

enum class ModelPart {
  Embedding,
  Attention,
  DenseFfn,
  Router,
  RoutedExperts,
  SharedExperts,
  Norms,
  Output,
  Mtp, ///< Layers that predict more tokens; set by the layer, not the name.
  Other,
};
inline constexpr unsigned modelPartCount = unsigned(ModelPart::Other) + 1;

/// Returns the name of a part in reports, such as "routed experts".
std::string_view modelPartName(ModelPart part);

struct TensorRole {
  ModelPart part;
  std::optional<uint32_t> layer; ///< N of "blk.N."; none outside the layers.
};

TensorRole tensorRole(std::string_view name);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_TENSORROLE_H
