//===- TensorRole.h - What a tensor is, by its GGUF name --------*- C++ -*-===//
//
// GGUF names tensors in one way across architectures: "blk.N.NAME.weight" in a
// layer, "NAME.weight" outside. The name alone tells which part of the model a
// tensor belongs to.
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
  Mtp, ///< Layers that predict further tokens; set by the layer, not the name.
  Other,
};
inline constexpr unsigned modelPartCount = unsigned(ModelPart::Other) + 1;

/// "routed experts", as shown to people.
std::string_view modelPartName(ModelPart part);

struct TensorRole {
  ModelPart part;
  std::optional<uint32_t> layer; ///< N of "blk.N."; none outside the layers.
};

TensorRole tensorRole(std::string_view name);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_TENSORROLE_H
