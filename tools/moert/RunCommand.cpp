// moert run: text from a prompt.
#include "runtime/Generate.h"
#include "runtime/PlanTokenizer.h"
#include "runtime/base/ReadInput.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/common/Numbers.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Shared.h"

#include <limits>
#include <memory>
#include <type_traits>

namespace moert {

namespace {
struct RunFlags {
  EngineFlags engine;
  std::string prompt, promptFile;
  bool hasPrompt = false;
  bool json = false, stats = false;
  GenerateOptions generate;
};

StatusOr<std::string> promptText(const RunFlags &flags) {
  if (flags.hasPrompt == !flags.promptFile.empty())
    return Status(StatusCode::Usage,
                  "give the prompt with either -p TEXT or -f FILE");
  if (flags.hasPrompt)
    return flags.prompt;
  return readInput(flags.promptFile);
}

void printStats(const GenerateStats &stats, const Engine &engine) {
  moetool::note("\nprompt:    {:5} tokens in {:.2f} s, {:.2f} t/s\n"
                "generated: {:5} tokens in {:.2f} s, {:.2f} t/s\n",
                stats.promptTokens, stats.promptSeconds, stats.promptRate(),
                stats.generatedTokens, stats.decodeSeconds, stats.decodeRate());
}

/// Why a text is shorter than it would be; "" where nothing cut it.
std::string cutNote(const GenerateStats &stats, const Engine &engine) {
  if (stats.reason != StopReason::ContextFull)
    return "";
  return fmt::format("the text ends because the context of {} tokens is full{}",
                     engine.context(),
                     engine.contextHint(int64_t(engine.context()) + 1));
}

void printJson(const GenerateStats &stats, const Engine &engine,
               const std::string &prompt, const std::string &text) {
  nlohmann::ordered_json object = {
      {"prompt", prompt},
      {"text", text},
      {"stop_reason", stopReasonName(stats.reason)},
      {"prompt_tokens", stats.promptTokens},
      {"generated_tokens", stats.generatedTokens},
      {"prompt_seconds", stats.promptSeconds},
      {"decode_seconds", stats.decodeSeconds},
      {"prompt_ts", stats.promptRate()},
      {"decode_ts", stats.decodeRate()},
      {"threads", engine.threads()}};
  if (std::string note = cutNote(stats, engine); !note.empty())
    object["note"] = note;
  moetool::printDocument(object);
}

Status runPrompt(const RunFlags &flags) {
  MOE_ASSIGN_OR_RETURN(std::string prompt, promptText(flags));
  // Before a large plan loads for nothing.
  MOE_RETURN_IF_ERROR(Sampler::create(flags.generate.sampler).status());
  // Ctrl-C while a large plan loads should end the process as usual, so it is
  // caught only from here on.
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, flags.engine.open());
  MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, planTokenizer(engine->plan()));
  MOE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer.encode(prompt));
  if (tokens.empty())
    return Status(StatusCode::Usage,
                  "the prompt is empty, and this model starts texts with no "
                  "token of its own; give at least one character");
  Sequence sequence = engine->sequence();
  sequence.setCancel(moetool::catchInterrupt());

  std::string text;
  MOE_ASSIGN_OR_RETURN(GenerateStats stats,
                       generate(*engine, sequence, tokenizer, tokens, flags.generate,
                                [&](std::string_view piece) {
                                  if (flags.json) {
                                    text += piece;
                                    return Status::ok();
                                  }
                                  // Without a reader there is no more to do.
                                  moetool::printText(piece);
                                  return moetool::flush();
                                }));
  if (flags.json)
    printJson(stats, *engine, prompt, text);
  else
    moetool::print("\n");
  MOE_RETURN_IF_ERROR(moetool::flush());
  if (flags.stats || moetool::stderrIsTerminal() ||
      stats.reason == StopReason::Cancelled)
    printStats(stats, *engine);
  if (std::string note = cutNote(stats, *engine); !note.empty())
    moetool::note("note: {}\n", note);
  if (stats.reason == StopReason::Cancelled)
    return Status(StatusCode::Cancelled, "interrupted");
  return Status::ok();
}

void addSampling(CLI::App &command, RunFlags &flags) {
  SamplerParams &sampler = flags.generate.sampler;
  auto add = [&]<class T>(const char *name, T &value,
                          std::type_identity_t<T> most, const char *help) {
    moetool::addNumber(command, name, value, help, T(0), most)
        ->type_name("X")
        ->group("Sampling");
  };
  constexpr float kLarge = 1e6f;
  add("--temp", sampler.temperature, kLarge,
      "Temperature; 0 always takes the most likely token");
  add("--top-k", sampler.topK, std::numeric_limits<int32_t>::max(),
      "Among the K most likely; 0 is all");
  add("--top-p", sampler.topP, 1,
      "Among the most likely that make up this probability; 1 is all");
  add("--min-p", sampler.minP, 1,
      "Among those at least this fraction as likely as the first; 0 is all");
  add("--repeat-penalty", sampler.repetitionPenalty, kLarge,
      "Divides the logits of recent tokens; 1 is off");
  add("--repeat-last-n", sampler.repetitionWindow, 1 << 20,
      "How many tokens are recent");
  add("--seed", sampler.seed, std::numeric_limits<uint64_t>::max(),
      "The same seed gives the same text");
}
} // namespace

void addRunCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App *command = tool.command("run", "Generate text after a prompt",
                                   [flags] { return runPrompt(*flags); });
  flags->engine.addPlan(*command);
  command
      ->add_option_function<std::string>(
          "-p,--prompt",
          [flags](const std::string &prompt) {
            flags->prompt = prompt;
            flags->hasPrompt = true;
          },
          "The prompt")
      ->type_name("TEXT")
      ->group("Text");
  command
      ->add_option("-f,--file", flags->promptFile,
                   "Read the prompt from a file; - is standard input")
      ->type_name("FILE")
      ->group("Text");
  moetool::addNumber(*command, "-n,--n-predict", flags->generate.maxTokens,
                     "Tokens to generate at most; -1 until the text ends", -1,
                     kMostTokens)
      ->type_name("N")
      ->group("Text");
  command
      ->add_option("--stop", flags->generate.stops,
                   "End before this string; may be given several times")
      ->allow_extra_args(false)
      ->type_name("STR")
      ->group("Text");
  command
      ->add_flag("--ignore-eos", flags->generate.ignoreEos,
                 "Go on after the token that ends a text")
      ->group("Text");
  addSampling(*command, *flags);
  flags->engine.addThreads(*command);
  flags->engine.addWeights(*command);
  command
      ->add_flag("--json", flags->json,
                 "Print one JSON object with the text and the statistics")
      ->group("Output");
  command
      ->add_flag("--stats", flags->stats,
                 "Print statistics even where stderr is no terminal")
      ->group("Output");
}

} // namespace moert
