//===- Pipelines.h - The order of the passes --------------------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_PIPELINE_PIPELINES_H
#define MOE_PASSES_MOE_PIPELINE_PIPELINES_H

#include "compiler/Options/OptionTable.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Support/LLVM.h"
#include "passes/moe/PassEnums.h"

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace mlir {
class OpPassManager;
class Pass;
} // namespace mlir

namespace mlir::moe {

/// "kv-type" of "--kv-type".
inline llvm::StringRef argumentOf(const moert::OptionInfo &info) {
  return llvm::StringRef(moert::longName(info)).drop_front(2);
}

/// An option of the pipeline, made from a row of Options.def. `fallback` is the
/// value that the row says.
template <class T>
struct PipelineOption : mlir::detail::PassOptions::Option<T> {
  PipelineOption(mlir::detail::PassOptions &parent,
                 const moert::OptionInfo &info, T fallback)
      : mlir::detail::PassOptions::Option<T>(
            parent, argumentOf(info), llvm::cl::desc(info.help),
            llvm::cl::init(std::move(fallback))) {}
  using mlir::detail::PassOptions::Option<T>::operator=;
};
template <class T>
struct PipelineOption<std::vector<T>>
    : mlir::detail::PassOptions::ListOption<T> {
  PipelineOption(mlir::detail::PassOptions &parent,
                 const moert::OptionInfo &info, std::vector<T>)
      : mlir::detail::PassOptions::ListOption<T>(parent, argumentOf(info),
                                                 llvm::cl::desc(info.help)) {}
};
/// An option whose words stand for values of an enumeration.
template <class T>
requires std::is_enum_v<T>
struct PipelineOption<T> : mlir::detail::PassOptions::Option<T> {
  PipelineOption(mlir::detail::PassOptions &parent,
                 const moert::OptionInfo &info, llvm::StringRef fallback)
      : mlir::detail::PassOptions::Option<T>(parent, argumentOf(info),
                                             llvm::cl::desc(info.help),
                                             valuesOf(T())) {
    (void)setWord(fallback);
  }
  /// Fails for a word that stands for no value.
  LogicalResult setWord(llvm::StringRef word) {
    T value{};
    if (this->getParser().parse(*this, this->ArgStr, word, value))
      return failure();
    this->setValue(value);
    return success();
  }
};

/// What a user decides about a compilation: the rows of Options.def that passes
/// read, and what moec makes of others.
struct CompileOptions : PassPipelineOptions<CompileOptions> {
#define MOE_PASS_OPTION(field, Type, PassType, fallback, ...)                  \
  PipelineOption<PassType> field{*this, moec::options::field, fallback};
#include "compiler/Options/Options.def"
  Option<int64_t> decodeTokens{*this, "decode-tokens",
                               llvm::cl::desc("Most tokens of a decode step"),
                               llvm::cl::init(1)};
  ListOption<int64_t> layerExperts{
      *this, "layer-experts",
      llvm::cl::desc("Experts per token by layer; 0: as many as it uses")};
};

/// Notes on every attention, as its moe.device, where `placement`, passes from
/// a graph with phases to one with devices, puts it in a copy of the module.
std::unique_ptr<Pass> createForeseeDevicesPass(OpPassManager placement);
/// Keeps on the host what that pass found faster there: attention.
std::unique_ptr<Pass> createHoldAttentionPass();

/// Model graph to placed graph: every pass on the `moe` dialect, in order. The
/// module needs moe.model, moe.files and moe.target.
void buildCompilePipeline(OpPassManager &manager,
                          const CompileOptions &options);

/// Registers every pass and `moe-compile` with the global pass registry.
void registerPassesAndPipelines();

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PIPELINE_PIPELINES_H
