//===- ModuleNames.h - Tensors as Hugging Face's modules --------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_MODULENAMES_H
#define MOE_COMPILER_DRIVER_MODULENAMES_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// What a module is, whatever a model calls its class.
enum class ModuleKind {
  Container, ///< A list of layers, and what has no class of interest.
  Model,
  Layer,
  Attention,
  Moe,
  Mlp,
  Experts,
  Gate,
  Linear,
  Embedding,
  Norm,
  Rope,
};

/// A module on the way from the model to a tensor.
struct Module {
  std::string name; ///< "model.layers.3.mlp.experts"
  ModuleKind kind;
};

/// The modules that a tensor of a GGUF file of `architecture` is in, from the
/// outermost to the one whose weight it is; empty for a tensor that no module
/// is known of.
std::vector<Module> modulesOf(std::string_view architecture,
                              std::string_view tensor);

/// What modules of a class are, by the end of its name
/// ("torch.nn.modules.linear.Linear"); absent for a class that is not known.
std::optional<ModuleKind> kindOfClass(std::string_view className);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_MODULENAMES_H
