//===- moec.cpp - The compiler's command line -----------------------------===//

#include "tools/common/LlvmFailure.h"
#include "tools/moec/Commands.h"

namespace {
using moetool::kPositional;

constexpr std::string_view kOneBatchSize =
    "moec has one batch size, --ubatch: the most tokens of a prefill step";
constexpr std::string_view kDownloads =
    "nothing is downloaded: get the GGUF with another program, such as hf "
    "download USER/MODEL FILE.gguf, and name the file; tools/get-model.sh gets "
    "two small models";
constexpr std::string_view kAttention =
    "moec chooses attention kernels itself; there is nothing to switch on";
constexpr std::string_view kCacheTypes =
    "keys and values have one type: --kv-type f16 or --kv-type q8_0";
constexpr std::string_view kSplits =
    "name the GPUs with --target, as in 2x3090+xeon, and moec splits the model "
    "between them; --place puts ops on a device";
constexpr std::string_view kAtRunTime =
    "this is decided when the plan runs: moert run --no-mmap";
constexpr std::string_view kThreads =
    "this is decided when the plan runs: moert run --threads N";

/// Spellings of options of compile and plan in llama.cpp and ik_llama.cpp.
constexpr moetool::Spelling kSpellings[] = {
    {"-m", kPositional},
    {"-hf", "", kDownloads},
    {"-hfr", "", kDownloads},
    {"--hf-repo", "", kDownloads},
    {"-hff", "", kDownloads},
    {"--hf-file", "", kDownloads},
    {"-mu", "", kDownloads},
    {"--model-url", "", kDownloads},
    {"--model", kPositional},
    {"--ctx-size", "--ctx"},
    {"-ub", "--ubatch"},
    {"--ubatch-size", "--ubatch"},
    {"-np", "--sequences"},
    {"--parallel", "--sequences"},
    {"-ot", "--override-tensor"},
    {"-ngl", "--n-gpu-layers"},
    {"--ngl", "--n-gpu-layers"},
    {"--gpu-layers", "--n-gpu-layers"},
    {"-cmoe", "--n-cpu-moe all"},
    {"--cpu-moe", "--n-cpu-moe all"},
    {"-ncmoe", "--n-cpu-moe"},
    {"--print-rules", "--emit rules"},
    {"-b", "", kOneBatchSize},
    {"--batch-size", "", kOneBatchSize},
    {"-fa", "", kAttention},
    {"--flash-attn", "", kAttention},
    {"-ctk", "", kCacheTypes},
    {"-ctv", "", kCacheTypes},
    {"--cache-type-k", "", kCacheTypes},
    {"--cache-type-v", "", kCacheTypes},
    {"-sm", "", kSplits},
    {"--split-mode", "", kSplits},
    {"-ts", "", kSplits},
    {"--tensor-split", "", kSplits},
    {"-mg", "", kSplits},
    {"--main-gpu", "", kSplits},
    {"-dev", "", kSplits},
    {"--device", "", kSplits},
    {"--mmap", "", kAtRunTime},
    {"--no-mmap", "", kAtRunTime},
    {"--mlock", "", kAtRunTime},
    {"--threads", "", kThreads},
    {"-rtr", "", "moec repacks weights when it compiles: --weights auto"},
    {"--run-time-repack", "",
     "moec repacks weights when it compiles: --weights auto"},
    {"-fmoe", "", "moec fuses experts itself; there is nothing to switch on"},
    {"-mla", "", "the form of latent attention is chosen by --mla auto"},
};
} // namespace

int main(int argc, char **argv) {
  moetool::catchLlvmFailures();
  moetool::Tool tool(
      "moec", "Compile mixture-of-experts GGUF models into plans for moert",
      kSpellings);
  moec::addCompileCommand(tool);
  moec::addPlanCommand(tool);
  moec::addDoctorCommand(tool);
  moec::addModelCommand(tool);
  moec::addExplainCommand(tool);
  moec::addDiffCommand(tool);
  moec::addInspectCommand(tool);
  moec::addAssembleCommand(tool);
  moec::addTargetsCommand(tool);
  moec::addCalibrateCommand(tool);
  moec::addArchitecturesCommand(tool);
  moec::addFormatsCommand(tool);
  return tool.main(argc, argv);
}
