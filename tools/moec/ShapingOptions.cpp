#include "tools/moec/ShapingOptions.h"

#include "runtime/PlanAccess.h"
#include "runtime/base/Text.h"
#include "tools/common/Cli.h"
#include "tools/common/Numbers.h"

namespace moec {

std::vector<CLI::Option *> addShapingOptions(CLI::App &app, CompileRequest &r) {
  CLI::App *command = &app;
  std::vector<CLI::Option *> all;
  auto keep = [&](CLI::Option *option) {
    all.push_back(option);
    return option;
  };
  auto add = [&](const char *group, const char *name, std::string &value,
                 const char *help) {
    return keep(command->add_option(name, value, help)
                    ->group(group)
                    ->capture_default_str());
  };
  auto addNumber = [&](const char *group, const char *name, int64_t &value,
                       int64_t least, int64_t most, const char *help) {
    keep(moetool::addNumber(*command, name, value, help, least, most)
             ->group(group));
  };
  auto addLimit = [&](const char *name, int64_t &value, const char *help) {
    keep(moetool::addSize(*command, name, value, help)->group("Machine"));
  };
  addLimit("--vram-limit", r.vramLimit, "Memory of each GPU to plan with");
  addLimit("--dram-limit", r.dramLimit, "Memory of the host to plan with");
  add("Machine", "--numa", r.numa,
      "How several memory nodes of the host hold weights: split (each what its "
      "own cores read; moert copies them there), interleaved, one (a node's "
      "cores and memory alone), any (as they come to lie); auto: what is "
      "predicted to be fastest")
      ->check(CLI::IsMember({"auto", "any", "split", "interleaved", "one"}));
  addNumber("Model", "-c,--ctx", r.context, 0, int64_t(1) << 24,
            "Context of a sequence in tokens; 0: the model's, at most 4096");
  add("Model", "--kv-type", r.kvType,
      "Elements of the KV cache: f32, f16, bf16, q8_0 (8.5 bits), or auto, "
      "which is f16; blk.0-3=f16,q8_0 is f16 for layers 0 to 3 and q8_0 for all "
      "others");
  addNumber("Model", "--sequences", r.sequences, 1, moert::kMaxSequences,
            "Sequences that are decoded together at most; the cache holds a "
            "context of each");
  keep(moetool::addSize(
           *command, "--kv-budget", r.kvBudget,
           "Size of the KV cache of all sequences and devices, such "
           "as 8GiB, instead of a context of each")
           ->group("Model"));
  addNumber("Model", "--experts", r.experts, 0, int64_t(1) << 16,
            "Experts per token; 0: as many as the model uses");
  addNumber("Model", "--defer-experts", r.deferExperts, 0, int64_t(1) << 16,
            "Of a token's experts of a layer those with the least weight, so "
            "many, which generation adds one layer later: a GPU goes on while "
            "the CPU computes them. That changes what is computed; moert "
            "perplexity --step shows the price");
  CLI::Option *profile =
      add("Model", "--router-profile", r.routerProfile,
          "What moert profile-router measured of the model: GPUs get the "
          "experts of each layer that are used most, unless weights stay as "
          "they are");
  CLI::Option *dropped =
      moetool::addNumber(
          *command, "--max-dropped-mass", r.maxDroppedMass,
          "Each layer uses the fewest experts per token that leave out at most "
          "this part of the gate mass that --router-profile has, such as 0.05",
          0.0f, 0.999f)
          ->group("Model")
          ->needs(profile)
          ->excludes("--experts");
  keep(dropped);
  addNumber("Decisions", "-u,--ubatch", r.ubatch, 1, int64_t(1) << 16,
            "Most tokens of a prefill step");
  add("Decisions", "--mla", r.mla, "Form of latent attention")
      ->check(CLI::IsMember({"auto", "none", "factored", "folded"}));
  keep(command
           ->add_option(
               "--place", r.place,
               "[PHASE:]OPS=DEVICE, for example blk.*.ffn_experts=cpu1 "
               "or prefill:blk.*=cpu0: where ops go that this names; of "
               "several rules the last that matches decides; @FILE for those "
               "of a file's lines")
           ->group("Decisions")
           ->allow_extra_args(false)
           ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
  keep(
      command
          ->add_option("--override-tensor", r.tensorRules,
                       "REGEX=DEVICE[,...], for example ffn_.*_exps=CPU: where "
                       "what reads such tensors goes; the first that matches a "
                       "tensor decides (-ot for short)")
          ->group("Decisions")
          ->allow_extra_args(false)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
  add("Decisions", "--rules", r.rulesFile,
      "KTransformers' file of rules (YAML): where modules go, by Hugging "
      "Face's "
      "names and classes; the first that matches a module decides")
      ->excludes("--override-tensor");
  CLI::Option *cpuMoe =
      command
          ->add_flag_callback(
              "--cpu-moe", [&r] { r.cpuMoeLayers = -1; },
              "Keep the routed experts of all layers on the CPU (-cmoe)")
          ->group("Decisions");
  keep(cpuMoe);
  CLI::Option *someMoe =
      moetool::addNumber(*command, "--n-cpu-moe", r.cpuMoeLayers,
                         "Keep the routed experts of the first N layers on the "
                         "CPU (-ncmoe); 0: of none",
                         int64_t(0), int64_t(1) << 10)
          ->group("Decisions")
          ->excludes(cpuMoe);
  keep(someMoe);
  addNumber(
      "Decisions", "--n-gpu-layers", r.gpuLayers, 0, int64_t(1) << 16,
      "Layers on GPUs, from the last; with one more the head too (-ngl) [as "
      "is best]");
  keep(command
           ->add_option_function<std::string>(
               "--stream-experts",
               [&r](const std::string &word) {
                 if (word == "off")
                   r.streamExperts = 0;
                 else if (word == "auto")
                   r.streamExperts = -1;
                 else if (!CLI::detail::lexical_cast(word, r.streamExperts) ||
                          r.streamExperts < 1 ||
                          r.streamExperts > int64_t(1) << 16)
                   throw CLI::ValidationError(
                       "--stream-experts is " + moert::quoted(word) +
                       ", expected off, auto or 1 to 65536");
               },
               "off, auto, or the fewest tokens of a prefill step in which the "
               "CPU's experts are brought to the GPU and multiplied there; "
               "auto: from where the cost model says that it pays [off]")
           ->type_name("off|auto|N")
           ->group("Decisions"));
  keep(command
           ->add_flag("--allow-unmatched-rules", r.allowUnmatchedRules,
                      "Note rules about tensors that place none, and go on")
           ->group("Decisions"));
  add("Decisions", "--optimize-for", r.optimizeFor,
      "What placement makes fast: generated tokens, prompts, or a typical "
      "prompt and 256 tokens")
      ->check(CLI::IsMember({"decode", "prefill", "balanced"}));
  addNumber("Decisions", "--typical-prompt", r.typicalPrompt, 1,
            int64_t(1) << 20, "Tokens of a typical prompt");
  add("Decisions", "-w,--weights", r.weights,
      "auto: write to plan.weights what is computed or laid out anew; pack: "
      "everything, the plan then needs no GGUF; reference: nothing")
      ->check(CLI::IsMember({"auto", "pack", "reference"}));
  return all;
}

} // namespace moec
