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
  DeltaNet,
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
  /// Whether it is a torch.nn.Linear, as are the routers of most architectures.
  bool isLinear;

  bool isOf(ModuleKind wanted) const {
    return kind == wanted || (wanted == ModuleKind::Linear && isLinear);
  }
  /// Whether it is a layer's attention, or what a layer has in its place.
  bool isAttention() const {
    return kind == ModuleKind::Attention || kind == ModuleKind::DeltaNet;
  }
};

/// Returns the modules that contain a tensor of a GGUF file of `architecture`,
/// from the outermost to the one whose weight it is; empty if the tensor
/// belongs to no known module.
std::vector<Module> modulesOf(std::string_view architecture,
                              std::string_view tensor);

/// Returns the kind of a class by the end of its name
/// ("torch.nn.modules.linear.Linear"); none for an unknown class.
std::optional<ModuleKind> kindOfClass(std::string_view className);

/// Returns the ends of the names of all known classes, for messages.
std::string knownClasses();

} // namespace moec

#endif // MOE_COMPILER_DRIVER_MODULENAMES_H
