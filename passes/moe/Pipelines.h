//===- Pipelines.h - The order of the passes --------------------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_PIPELINES_H
#define MOE_PASSES_MOE_PIPELINES_H

#include "mlir/Pass/PassOptions.h"
#include "passes/moe/PassEnums.h"

#include <memory>
#include <string>

namespace mlir {
class OpPassManager;
class Pass;
} // namespace mlir

namespace mlir::moe {

/// What a user decides about a compilation; the defaults are moec's.
struct CompileOptions : PassPipelineOptions<CompileOptions> {
  Option<int64_t> context{*this, "context",
                          llvm::cl::desc("Most positions of a sequence"),
                          llvm::cl::init(4096)};
  Option<int64_t> ubatch{*this, "ubatch",
                         llvm::cl::desc("Most tokens of a prefill step"),
                         llvm::cl::init(512)};
  Option<int64_t> decodeTokens{*this, "decode-tokens",
                               llvm::cl::desc("Most tokens of a decode step"),
                               llvm::cl::init(1)};
  Option<int64_t> sequences{
      *this, "sequences",
      llvm::cl::desc("Most sequences that are decoded together"),
      llvm::cl::init(1)};
  Option<int64_t> kvBudget{
      *this, "kv-budget",
      llvm::cl::desc("Bytes of the KV cache; 0 for what the contexts take"),
      llvm::cl::init(0)};
  Option<int64_t> experts{
      *this, "experts",
      llvm::cl::desc("Experts per token; 0 for as many as the model uses"),
      llvm::cl::init(0)};
  ListOption<int64_t> layerExperts{
      *this, "layer-experts",
      llvm::cl::desc("Experts per token by layer; 0: as many as it uses")};
  Option<int64_t> deferExperts{
      *this, "defer-experts",
      llvm::cl::desc(
          "Of a token's experts of a layer, how many generation adds "
          "one layer later"),
      llvm::cl::init(0)};
  Option<std::string> numa{
      *this, "numa",
      llvm::cl::desc("How a host's memory nodes hold weights: auto, any, "
                     "split, interleaved or one"),
      llvm::cl::init("auto")};
  Option<std::string> kvType{
      *this, "kv-type",
      llvm::cl::desc("Elements of the KV cache by layer, "
                     "as in blk.0-3=f16,q8_0"),
      llvm::cl::init("auto")};
  Option<MlaForm> mla{*this, "mla", llvm::cl::desc("Form of latent attention"),
                      llvm::cl::init(MlaForm::Auto), mlaFormValues()};
  Option<Objective> optimizeFor{
      *this, "optimize-for", llvm::cl::desc("What placement is to make fast"),
      llvm::cl::init(Objective::Balanced), objectiveValues()};
  Option<int64_t> typicalPrompt{*this, "typical-prompt",
                                llvm::cl::desc("Tokens of a typical prompt"),
                                llvm::cl::init(1024)};
  ListOption<std::string> tensorRules{
      *this, "tensor-rules",
      llvm::cl::desc("Rules of devices by names of tensors: REGEX=DEVICE")};
  Option<int64_t> cpuMoeLayers{
      *this, "cpu-moe-layers",
      llvm::cl::desc("Layers whose routed experts are the host's; -1: all"),
      llvm::cl::init(0)};
  Option<int64_t> streamExperts{
      *this, "stream-experts",
      llvm::cl::desc("Tokens of the shortest step that streams experts to the "
                     "GPU; -1: where it pays; 0: none"),
      llvm::cl::init(0)};
  Option<int64_t> gpuLayers{
      *this, "gpu-layers",
      llvm::cl::desc("Layers that are to be on GPUs; -1: as is best"),
      llvm::cl::init(-1)};
  Option<bool> allowUnmatched{
      *this, "allow-unmatched",
      llvm::cl::desc("Whether a rule about tensors may place none"),
      llvm::cl::init(false)};
  ListOption<std::string> place{
      *this, "place", llvm::cl::desc("Rules of devices: [PHASE:]OPS=DEVICE")};
  Option<WeightsMode> weights{
      *this, "weights", llvm::cl::desc("Whether weights may be packed"),
      llvm::cl::init(WeightsMode::Auto), weightsModeValues()};
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

#endif // MOE_PASSES_MOE_PIPELINES_H
