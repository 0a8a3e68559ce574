//===- moert.cpp - The runtime's command line -----------------------------===//

#include "tools/moert/Commands.h"
#include "tools/moert/ModelPlan.h"

namespace {
using moetool::kDefault;
using moetool::kPositional;

constexpr std::string_view kByCompile =
    "the plan decides this: compile with moec compile --target, --place or "
    "--n-gpu-layers";
constexpr std::string_view kUbatch =
    "the plan decides this: compile with moec compile --ubatch";
constexpr std::string_view kCacheTypes =
    "the plan decides this: compile with moec compile --kv-type";
constexpr std::string_view kDownloads =
    "nothing is downloaded: get the GGUF with another program, such as hf "
    "download USER/MODEL FILE.gguf, and name the file; tools/get-model.sh gets "
    "two small models";
constexpr std::string_view kAttention =
    "moec chooses attention kernels itself; there is nothing to switch on";

/// llama.cpp's spellings of options of run, chat and bench.
constexpr moetool::Spelling kSpellings[] = {
    {"-m", kPositional},
    {"-hf", "", kDownloads},
    {"-hfr", "", kDownloads},
    {"--hf-repo", "", kDownloads},
    {"-hff", "", kDownloads},
    {"--hf-file", "", kDownloads},
    {"-mu", "", kDownloads},
    {"--model-url", "", kDownloads},
    {"--temperature", "--temp"},
    {"--ctx-size", "--ctx"},
    {"--predict", "--n-predict"},
    {"-s", "--seed"},
    {"-sys", "--system"},
    {"--system-prompt", "--system"},
    {"--reverse-prompt", "--stop"},
    {"--chat-template-file", "--template"},
    {"--jinja", kDefault},
    {"-cnv", kDefault},
    {"--conversation", kDefault},
    {"-pg", "--pg"},
    {"--json", "--output json"},
    {"-i", "", "moert chat PLAN.fb is a conversation"},
    {"--interactive", "", "moert chat PLAN.fb is a conversation"},
    {"-tb", "", "-t is the number of threads in all steps"},
    {"--threads-batch", "", "-t is the number of threads in all steps"},
    {"-b", "", kUbatch},
    {"--batch-size", "", kUbatch},
    {"-ub", "", kUbatch},
    {"--ubatch-size", "", kUbatch},
    {"-ctk", "", kCacheTypes},
    {"-ctv", "", kCacheTypes},
    {"--cache-type-k", "", kCacheTypes},
    {"--cache-type-v", "", kCacheTypes},
    {"-fa", "", kAttention},
    {"--flash-attn", "", kAttention},
    {"-ngl", "", kByCompile},
    {"--ngl", "", kByCompile},
    {"--gpu-layers", "", kByCompile},
    {"--n-gpu-layers", "", kByCompile},
    {"-ot", "", kByCompile},
    {"--override-tensor", "", kByCompile},
    {"-cmoe", "", kByCompile},
    {"--cpu-moe", "", kByCompile},
    {"-ncmoe", "", kByCompile},
    {"--n-cpu-moe", "", kByCompile},
    {"-sm", "", kByCompile},
    {"-ts", "", kByCompile},
    {"--tensor-split", "", kByCompile},
    {"--mlock", "",
     "weights are mapped and stay in memory while it is free; "
     "--no-mmap copies them into memory"},
};
} // namespace

int main(int argc, char **argv) {
  moetool::Tool tool(
      "moert",
      "Run models: moert MODEL.gguf talks with a model, moert serve MODEL.gguf "
      "serves it. A model is compiled for this machine first, and its plan is "
      "kept (moert plans). Commands take plans of moec compile as well",
      kSpellings);
  moert::addRunCommand(tool);
  moert::addChatCommand(tool);
  moert::addServeCommand(tool);
  moert::addLogitsCommand(tool);
  moert::addTokenizeCommand(tool);
  moert::addRenderCommand(tool);
  moert::addPerplexityCommand(tool);
  moert::addBenchCommand(tool);
  moert::addProfileCommand(tool);
  moert::addProfileRouterCommand(tool);
  moert::addDevicesCommand(tool);
  moert::addInfoCommand(tool);
  moert::addVerifyCommand(tool);
  moert::addPlansCommand(tool);
  return tool.main(argc, argv, moert::withCommand);
}
