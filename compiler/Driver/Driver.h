//===- Driver.h - From a GGUF file to a plan --------------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_DRIVER_H
#define MOE_COMPILER_DRIVER_DRIVER_H

#include "compiler/Driver/Forecast.h"
#include "compiler/Driver/Ladder.h"
#include "compiler/Import/GgufFile.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// What to write.
enum class Emit {
  Moe,      ///< The model graph as imported.
  Placed,   ///< After the passes on the graph: devices, kernels, reasons.
  Plan,     ///< The plan dialect.
  Fb,       ///< The plan file, and plan.weights where weights were packed.
  Rules,    ///< The placement as rules of --place, to edit.
  Forecast, ///< Nothing: what the plan would need and do is in the report.
};

struct CompileRequest {
  std::string model;
  std::string target = "native";
  std::string targetFile; ///< Instead of `target` when not empty.
  std::string output;     ///< "-": text to the report; "": that, or plan.fb.
  Emit emit = Emit::Fb;
  std::string dumpFolder; ///< IR after every pass, remarks; "" for none.
  bool verbose = false;   ///< CompileReport::remarks are wanted.
  int64_t context = 0;    ///< Of a sequence; 0: the model's, at most 4096.
  /// Instead of `context` several plans in one file, for Emit::Fb.
  std::vector<LadderRung> ladder;
  int64_t sequences = 1; ///< Decoded together.
  int64_t kvBudget = 0;  ///< Bytes of the cache; 0: a context of each sequence.
  int64_t ubatch = 512;
  int64_t experts = 0; ///< 0: as many as the model uses.
  /// What moert profile-router wrote, and how much of each layer's gate mass
  /// may be left out by it (RouterProfile.h); "" for none.
  std::string routerProfile;
  float maxDroppedMass = 0;
  /// Of a token's experts of a layer, how many generation adds a layer later.
  int64_t deferExperts = 0;
  std::string mla = "auto";
  std::string weights = "auto";
  std::string weightsFile; ///< "" for one beside the plan.
  /// Of weights that stay in the model file: auto, full or sampled.
  std::string checksums = "auto";
  /// Of each GPU and of the host, to plan with; 0: what the target says.
  int64_t vramLimit = 0, dramLimit = 0;
  /// How several memory nodes of the host hold weights (moec::NodeUse): auto,
  /// any, split, interleaved or one.
  std::string numa = "auto";
  std::string optimizeFor = "balanced"; ///< decode, prefill or balanced.
  int64_t typicalPrompt = 1024;         ///< Tokens of such a request's prompt.
  /// Rules "[PHASE:]OPS=DEVICE", the last that matches an op decides.
  std::vector<std::string> place;
  /// Rules "REGEX=DEVICE[,...]" about tensors, the first that matches decides.
  std::vector<std::string> tensorRules;
  std::string rulesFile;    ///< Of KTransformers' rules (ModuleRules.h), or "".
  int64_t cpuMoeLayers = 0; ///< Whose experts are the host's; -1: of all.
  int64_t gpuLayers = -1;   ///< To be on GPUs, from the last; -1: as is best.
  /// From how many tokens on a step of a prompt streams experts of the host to
  /// the GPU; -1: where it pays; 0: never.
  int64_t streamExperts = 0;
  bool allowUnmatchedRules = false;
  /// NVIDIA's compiler of kernels, where a plan needs it; "" for the newest
  /// that is found.
  std::string nvrtc;
  /// Compute capabilities * 10 that kernels are compiled for besides those of
  /// the target's GPUs.
  std::vector<int> gpuArchs;
  bool tokenizer = true; ///< Whether the plan file carries the vocabulary.
  std::string pre; ///< In place of the model's pre-tokenizer; "": its own.
  /// By layer, as passes/moe/KvTypeRules.h says. auto is f16 for all layers; the
  /// measurements behind that are in Passes.td (moe-choose-kv-types).
  std::string kvType = "auto";
  /// Words of the command line that mean nothing here: commands that messages
  /// suggest keep them.
  std::string toolOptions;
  /// Called with what takes long (packing weights), and the bytes of it done so
  /// far and in all; false gives up. May be empty.
  std::function<bool(const char *what, uint64_t done, uint64_t total)> progress;
  /// Called with what is measured of this machine or compiled for a GPU, where
  /// it has to be, and with "" at the end. May be empty.
  std::function<void(const std::string &)> measuring;
};

struct CompileReport {
  std::string output;               ///< As asked, or the default.
  std::string text;                 ///< What "-" asked for, or "".
  std::vector<uint8_t> plan;        ///< As written, also to a stream.
  std::vector<std::string> notes;   ///< What a user should see.
  std::vector<std::string> remarks; ///< Of passes; those of layers as one.
  std::string packed;               ///< The weights file, or "".
  uint64_t packedBytes = 0;         ///< Its size.
  std::optional<Forecast> forecast; ///< Of Emit::Forecast.
};

/// Compiles as asked. Fails with the codes of moert::StatusCode: InvalidFile
/// for the model, Usage for options and targets, DoesNotFit for budgets,
/// Unsupported for architectures, formats, missing kernels, a GPU's kernels
/// without NVRTC and a vocabulary that the runtime cannot use, Io. What moert
/// would refuse to run is found before weights are packed; the message about a
/// rung of a ladder names it.
moert::StatusOr<CompileReport> compileModel(const CompileRequest &request);

/// What compileModel would say of `model` whatever the machine: notes, or the
/// failure that importing it or its vocabulary ends with.
moert::StatusOr<std::vector<std::string>> checkModel(const GgufModel &model);

/// A plan file as text of the plan dialect; of a ladder all rungs, or that with
/// this number.
moert::StatusOr<std::string> inspectPlan(const std::string &path,
                                         uint32_t rung = 0);

/// Text of the plan dialect to a plan file; the inverse of inspectPlan.
moert::Status assemblePlan(const std::string &textPath,
                           const std::string &output);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_DRIVER_H
