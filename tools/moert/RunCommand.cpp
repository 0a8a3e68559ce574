// moert run: text from a prompt.
#include "runtime/base/JsonPlace.h"
#include "runtime/base/ReadInput.h"
#include "runtime/base/Text.h"
#include "runtime/chat/Generate.h"
#include "runtime/chat/ReplyGrammar.h"
#include "runtime/constrain/Gbnf.h"
#include "runtime/constrain/JsonSchema.h"
#include "runtime/plan/PlanTokenizer.h"
#include "tools/common/Force.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/moert/ChatFlags.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Shared.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unistd.h>

namespace moert {

namespace {
struct RunFlags {
  EngineFlags engine;
  std::string prompt, promptFile, sessionFile, grammarFile, schemaFile;
  const CLI::Option *promptOption = nullptr;
  bool json = false, stats = false, force = false;
  ReplyOptions reply;
  SamplerParams sampler;
  ChatFlags chat;
  bool isChat = false;

  /// Returns whether the command line has a prompt, which may be empty.
  bool hasPrompt() const { return moetool::isGiven(promptOption); }
};

StatusOr<std::string> promptText(const RunFlags &flags) {
  if (flags.hasPrompt() == !flags.promptFile.empty())
    return Status(StatusCode::Usage,
                  "give the prompt with either -p TEXT or -f FILE, of which - "
                  "is standard input");
  if (flags.hasPrompt())
    return typedText(flags.prompt, flags.chat.escapes);
  MOE_ASSIGN_OR_RETURN(
      const std::string *text,
      flags.chat.texts->read("the prompt", flags.promptFile, kMostTextBytes));
  return *text;
}

/// Checks the prompt before a large plan is loaded.
Status checkPrompt(const RunFlags &flags, bool isChat) {
  MOE_RETURN_IF_ERROR(flags.chat.check());
  if (!isChat || flags.hasPrompt() || !flags.promptFile.empty())
    return promptText(flags).status();
  if (!flags.chat.messagesFile.empty())
    return Status::ok();
  return Status(StatusCode::Usage,
                "give the message with either -p TEXT or -f FILE, or a "
                "conversation with --messages FILE.json");
}

/// Returns the file of --session if this command may replace it. Without an
/// engine, this only checks what is known before a large plan is loaded.
StatusOr<OutputTarget> sessionTarget(const RunFlags &flags,
                                     const Engine *engine) {
  OutputRule rule =
      engine ? engine->outputRule(flags.force) : OutputRule(flags.force);
  for (const InputTexts::Text &text : flags.chat.texts->all())
    rule.addInput(text.role, text.path);
  return rule.target(flags.sessionFile, OutputKind::Session);
}

/// Returns the saved sequence of an earlier run, rewound to the prefix that it
/// shares with `prompt`.
StatusOr<Sequence> earlierSequence(Engine &engine, const std::string &path,
                                   std::span<const int32_t> prompt) {
  MOE_ASSIGN_OR_RETURN(Sequence sequence, sessionAt(engine, path));
  MOE_RETURN_IF_ERROR(keepShared(sequence, prompt).status());
  return sequence;
}

void printStats(const GenerateStats &stats, int32_t known) {
  if (known > 0)
    moetool::note("\nsession:   {:5} tokens of the prompt were cached", known);
  moetool::note("\nprompt:    {:5} tokens in {:.2f} s, {:.2f} t/s\n"
                "generated: {:5} tokens in {:.2f} s, {:.2f} t/s\n",
                stats.promptTokens, stats.promptSeconds, stats.promptRate(),
                stats.generatedTokens, stats.decodeSeconds, stats.decodeRate());
}

/// Returns a note if the context was too short for the whole text, otherwise
/// "". `wanted` is the number of prompt tokens and requested tokens.
std::string cutNote(const GenerateStats &stats, const Engine &engine,
                    int64_t wanted) {
  if (stats.reason != StopReason::ContextFull)
    return "";
  int64_t needed = std::max<int64_t>(engine.context() + int64_t(1), wanted);
  return moetool::fullMessage(engine.adviseContext(
      Status(StatusCode::DoesNotFit,
             fmt::format("the text ends because the context of {} is full",
                         moert::counted(engine.context(), "token"))),
      needed));
}

void printJson(const GenerateStats &stats, const Engine &engine, int32_t known,
               int64_t wanted, const std::string &prompt, const Reply &reply) {
  nlohmann::ordered_json object = {
      {"prompt", prompt},
      {"text", reply.text},
      {"stop_reason", stopReasonName(stats.reason)},
      {"prompt_tokens", stats.promptTokens},
      {"known_tokens", known},
      {"generated_tokens", stats.generatedTokens},
      {"prompt_seconds", stats.promptSeconds},
      {"decode_seconds", stats.decodeSeconds},
      {"prompt_ts", stats.promptRate()},
      {"decode_ts", stats.decodeRate()},
      {"threads", engine.team()}};
  if (!reply.reasoning.empty())
    object["reasoning"] = reply.reasoning;
  if (std::string note = cutNote(stats, engine, wanted); !note.empty())
    object["note"] = note;
  moetool::printDocument(object);
}

/// The input of a run: the prompt itself, or the conversation whose last
/// message it is.
struct Prompt {
  std::string text;
  /// Whether the user gave no text, apart from templates.
  bool isEmpty = false;
  std::vector<int32_t> tokens;
  std::shared_ptr<const Speech> speech = nullptr; ///< Set for chats.
};

StatusOr<Prompt> chatPrompt(const RunFlags &flags, const Plan &plan,
                            const Tokenizer &tokenizer) {
  MOE_ASSIGN_OR_RETURN(ChatFormat format, flags.chat.format(plan, tokenizer));
  MOE_ASSIGN_OR_RETURN(Messages messages, flags.chat.messages());
  bool isEmpty = false;
  if (flags.hasPrompt() || !flags.promptFile.empty()) {
    MOE_ASSIGN_OR_RETURN(std::string message, promptText(flags));
    isEmpty = message.empty();
    messages.add("user", message);
  }
  MOE_ASSIGN_OR_RETURN(ChatPrompt prompt,
                       format.prompt(messages, flags.chat.options()));
  return Prompt{std::move(prompt.text), isEmpty, std::move(prompt.tokens),
                format.speech()};
}

StatusOr<Prompt> plainPrompt(const RunFlags &flags,
                             const Tokenizer &tokenizer) {
  Prompt prompt;
  MOE_ASSIGN_OR_RETURN(prompt.text, promptText(flags));
  prompt.isEmpty = prompt.text.empty();
  EncodeOptions options;
  options.parseSpecial = !flags.chat.noSpecial;
  MOE_ASSIGN_OR_RETURN(prompt.tokens, tokenizer.encode(prompt.text, options));
  return prompt;
}

/// Returns what --grammar or --json-schema holds the text to; nothing without
/// them.
StatusOr<std::optional<Grammar>> grammarOf(const RunFlags &flags) {
  bool isSchema = !flags.schemaFile.empty();
  const std::string &given = isSchema ? flags.schemaFile : flags.grammarFile;
  if (given.empty())
    return std::optional<Grammar>();
  // A schema begins with a brace, and a grammar has a rule; files may, too.
  const size_t begin = given.find_first_not_of(" \t\r\n");
  bool isTyped = ::access(given.c_str(), F_OK) != 0 &&
                 (isSchema ? begin != given.npos && given[begin] == '{'
                           : given.find("::=") != given.npos);
  const std::string file =
      isTyped ? isSchema ? "the schema" : "the grammar" : inputName(given);
  const std::string *text = &given;
  if (!isTyped) {
    MOE_ASSIGN_OR_RETURN(
        text, flags.chat.texts->read(isSchema ? "the schema" : "the grammar",
                                     given, kMostTextBytes));
  }
  StatusOr<Grammar> grammar = Grammar();
  if (isSchema) {
    constexpr int mostNesting = 100;
    MOE_ASSIGN_OR_RETURN(nlohmann::ordered_json schema,
                         parseJson(file, *text, mostNesting));
    grammar = parseJsonSchema(schema);
  } else {
    grammar = parseGbnf(*text);
  }
  if (!grammar)
    return grammar.status().at(file);
  if (auto automaton = Automaton::compile(*grammar); !automaton)
    return automaton.status().at(file);
  return std::optional(*std::move(grammar));
}

Status runPrompt(RunFlags &flags) {
  bool isChat = flags.isChat || !flags.chat.system.empty() ||
                !flags.chat.messagesFile.empty() ||
                !flags.chat.templateFile.empty();
  MOE_RETURN_IF_ERROR(checkPrompt(flags, isChat));
  // Check the parameters before a large plan is loaded.
  MOE_RETURN_IF_ERROR(Sampler::create(flags.sampler).status());
  MOE_ASSIGN_OR_RETURN(std::optional<Grammar> grammar, grammarOf(flags));
  const std::string &file = flags.sessionFile;
  if (!file.empty())
    MOE_RETURN_IF_ERROR(sessionTarget(flags, nullptr).status());
  // Ctrl-C while a large plan loads should end the process as usual, so it is
  // caught only from here on.
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, flags.engine.open());
  MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, planTokenizer(engine->plan()));
  MOE_ASSIGN_OR_RETURN(Prompt prompt,
                       isChat ? chatPrompt(flags, engine->plan(), tokenizer)
                              : plainPrompt(flags, tokenizer));
  const std::vector<int32_t> &tokens = prompt.tokens;
  if (tokens.empty())
    return Status(StatusCode::Usage,
                  "the prompt is empty, and this model starts texts with no "
                  "token of its own; give at least one character");
  if (prompt.isEmpty && !flags.promptFile.empty())
    moetool::note("note: {} has no text: the prompt is empty\n",
                  inputName(flags.promptFile));
  std::optional<OutputTarget> session;
  if (!file.empty()) {
    MOE_ASSIGN_OR_RETURN(session, sessionTarget(flags, engine.get()));
  }
  MOE_ASSIGN_OR_RETURN(Sequence sequence,
                       earlierSequence(*engine, file, tokens));
  int32_t known = sequence.position();
  // If the number of tokens is not limited, none are requested in advance.
  int64_t wanted = int64_t(tokens.size()) + std::max(flags.reply.maxTokens, 0);
  sequence.setCancel(moetool::catchInterrupt());

  ReplyOptions options = flags.reply;
  options.speech = prompt.speech;
  MOE_ASSIGN_OR_RETURN(ReplyStream reply,
                       ReplyStream::create(tokenizer, prompt.text, options));
  std::optional<Constraint> constraint;
  if (grammar) {
    MOE_ASSIGN_OR_RETURN(std::shared_ptr<const Automaton> automaton,
                         answerGrammar(*grammar,
                                       isChat ? *prompt.speech : plainSpeech(),
                                       prompt.text));
    constraint.emplace(std::move(automaton),
                       std::make_shared<ConstraintVocabulary>(tokenizer));
  }
  ReplyPrinter printer(flags.chat.hidesReasoning());
  MOE_ASSIGN_OR_RETURN(
      GenerateStats stats,
      generate(
          *engine, sequence, std::span(tokens).subspan(size_t(known)),
          flags.sampler, reply,
          [&](const ReplyEvent &event) {
            return flags.json ? Status::ok() : printer.print(event);
          },
          constraint ? &*constraint : nullptr));
  if (flags.json)
    printJson(stats, *engine, known, wanted, prompt.text, reply.reply());
  else
    moetool::print("\n");
  MOE_RETURN_IF_ERROR(moetool::flush());
  if (flags.stats || moetool::stderrIsTerminal() ||
      stats.reason == StopReason::Cancelled)
    printStats(stats, known);
  if (std::string note = cutNote(stats, *engine, wanted); !note.empty())
    moetool::note("note: {}\n", note);
  if (session)
    MOE_RETURN_IF_ERROR(sequence.save(*session));
  if (stats.reason == StopReason::Cancelled)
    return Status(StatusCode::Cancelled, "interrupted");
  return Status::ok();
}

} // namespace

void addRunCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App *command = addEngineCommand(
      tool, "run", "Generate text after a prompt", flags, runPrompt);
  flags->engine.addModelOrPlan(*command);
  flags->promptOption =
      moetool::addOption(*command, rows::prompt, flags->prompt);
  moetool::addOption(*command, rows::promptFile, flags->promptFile);
  moetool::addOption(*command, rows::grammar, flags->grammarFile);
  moetool::addOption(*command, rows::jsonSchema, flags->schemaFile);
  moetool::addOption(*command, rows::maxTokens, flags->reply.maxTokens);
  moetool::addOption(*command, rows::stops, flags->reply.stops);
  moetool::addOption(*command, rows::ignoreEos, flags->reply.ignoreEos);
  moetool::addOption(*command, rows::session, flags->sessionFile);
  moetool::addForce(*command, flags->force, "Text");
  moetool::addOption(*command, rows::chat, flags->isChat);
  flags->chat.add(*command);
  addSampling(*command, flags->sampler);
  flags->engine.addThreads(*command);
  flags->engine.addRung(*command);
  flags->engine.addWeights(*command);
  moetool::addOption(*command, rows::json, flags->json);
  moetool::addOption(*command, rows::stats, flags->stats);
  flags->engine.addCompile(*command);
}

} // namespace moert
