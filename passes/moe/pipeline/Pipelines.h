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

/// Returns an option's name without the dashes: "kv-type" for "--kv-type".
inline llvm::StringRef argumentOf(const moert::OptionInfo &info) {
  return llvm::StringRef(moert::longName(info)).drop_front(2);
}

/// A pipeline option, made from a row of Options.def. `fallback` is the row's
/// default value.
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
/// An option whose values are the words of an enumeration.
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
  /// Sets the value from a word; fails if it is none of the option's words.
  LogicalResult setWord(llvm::StringRef word) {
    T value{};
    if (this->getParser().parse(*this, this->ArgStr, word, value))
      return failure();
    this->setValue(value);
    return success();
  }
};

/// The user's options of a compilation: the rows of Options.def that passes
/// read, and options that moec derives from others.
struct CompileOptions : PassPipelineOptions<CompileOptions> {
#define MOE_PASS_OPTION(field, Type, PassType, fallback, ...)                  \
  PipelineOption<PassType> field{*this, moec::options::field, fallback};
#include "compiler/Options/Options.def"
  Option<int64_t> decodeTokens{*this, "decode-tokens",
                               llvm::cl::desc("Most tokens of a decode step"),
                               llvm::cl::init(1)};
  ListOption<int64_t> layerExperts{
      *this, "layer-experts",
      llvm::cl::desc("Experts per token by layer; 0: the model's number")};
  Option<std::string> streamSource{
      *this, "stream-source",
      llvm::cl::desc("The line that sets stream-experts, if a file does")};
};

/// Adds all passes on the `moe` dialect, from the model graph to the placed
/// graph. The module needs moe.model, moe.files and moe.target.
void buildCompilePipeline(OpPassManager &manager,
                          const CompileOptions &options);

/// Registers every pass and `moe-compile` with the global pass registry.
void registerPassesAndPipelines();

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PIPELINE_PIPELINES_H
