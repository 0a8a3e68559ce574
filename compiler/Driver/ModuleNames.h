//===- ModuleNames.h - Hugging Face's names of modules ----------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_MODULENAMES_H
#define MOE_COMPILER_DRIVER_MODULENAMES_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// The kind of a module, independent of the name of its class.
enum class ModuleKind {
  Container, ///< A list of layers, or a module of no known kind.
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

/// A module that contains a tensor.
struct Module {
  std::string name; ///< "model.layers.3.mlp.experts"
  ModuleKind kind;
};

/// Returns the modules that contain a tensor of a GGUF file of `architecture`,
/// from the outermost to the one whose weight it is; empty if the tensor
/// belongs to no known module.
std::vector<Module> modulesOf(std::string_view architecture,
                              std::string_view tensor);

/// Returns the kind of a class by the end of its name
/// ("torch.nn.modules.linear.Linear"); none for an unknown class.
std::optional<ModuleKind> kindOfClass(std::string_view className);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_MODULENAMES_H
