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
  /// Layers that predict further tokens (the layer number decides, not the
  /// name).
  Mtp,
  Other,
};
inline constexpr unsigned modelPartCount = unsigned(ModelPart::Other) + 1;

/// Returns the name of a part in reports, such as "routed experts".
std::string_view modelPartName(ModelPart part);

struct TensorRole {
  ModelPart part;
  /// N of "blk.N."; absent for tensors outside the layers.
  std::optional<uint32_t> layer;
};

TensorRole tensorRole(std::string_view name);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_TENSORROLE_H
