// moert chat: a conversation in a terminal.
#include "runtime/base/OutputFile.h"
#include "runtime/base/ReadInput.h"
#include "runtime/base/Text.h"
#include "runtime/chat/Conversation.h"
#include "runtime/chat/Generate.h"
#include "runtime/plan/PlanTokenizer.h"
#include "tools/common/Interrupt.h"
#include "tools/moert/ChatFlags.h"
#include "tools/moert/Commands.h"
#include "tools/moert/LineReader.h"
#include "tools/moert/Shared.h"

#include <algorithm>
#include <memory>

namespace moert {

namespace {
struct ChatCommandFlags {
  EngineFlags engine;
  ChatFlags chat;
  std::string first, firstFile; ///< The first message, or the file that has it.
  ReplyOptions reply;
  SamplerParams sampler;
  CLI::Option *limit = nullptr; ///< The option -n, which may not be given.
  bool stats = false;
};

/// Tokens of an answer by a model that knows no end of one.
constexpr int32_t kPlainAnswer = 100;

constexpr const char *kHelp =
    "/system TEXT   what the model is told before all else; starts anew\n"
    "/reset         starts anew, with the same system message\n"
    "/save FILE     writes the conversation as JSON, for /load and "
    "--messages;\n"
    "               /save --force FILE replaces a file of another kind, too\n"
    "/load FILE     goes on with a conversation\n"
    "/stats         speed and length of the last answer, room left\n"
    "/think MODE    reasoning: show, hide, off or force\n"
    "/help, /exit   this list; the end (Ctrl-D, too)\n"
    "A message of several lines: paste it, end lines with \\, or put it "
    "between "
    "two lines of \"\"\".\nCtrl-C stops an answer.\n";

class Chat {
public:
  Chat(Engine &engine, ChatCommandFlags flags, Conversation conversation)
      : engine_(engine), flags_(std::move(flags)),
        conversation_(std::move(conversation)), sequence_(engine.sequence()) {
    sequence_.setCancel(moetool::catchInterrupt());
  }

  /// Runs the chat until the input ends.
  Status run(LineReader &reader);

private:
  /// Executes a command; returns false if it ends the chat.
  bool command(std::string_view line);
  Status answer();
  Status reply(const LineReader &reader);
  void showStats() const;
  Status save(std::string argument) const;

  Engine &engine_;
  ChatCommandFlags flags_;
  Conversation conversation_;
  Sequence sequence_;
  GenerateStats stats_;
  int32_t known_ = 0;
  /// Set if the conversation is new and none of it was evaluated, so that the
  /// sequence has the tokens of another conversation.
  bool isNew_ = true;
};

void Chat::showStats() const {
  moetool::note("prompt:    {:5} new tokens in {:.2f} s, {:.2f} t/s; {} were "
                "cached\n"
                "answer:    {:5} tokens in {:.2f} s, {:.2f} t/s\n"
                "context:   {:5} of {} tokens\n",
                stats_.promptTokens, stats_.promptSeconds, stats_.promptRate(),
                known_, stats_.generatedTokens, stats_.decodeSeconds,
                stats_.decodeRate(), isNew_ ? 0 : sequence_.position(),
                engine_.context());
}

/// Evaluates the part of the rendered text that the sequence does not have yet,
/// generates the answer and appends it to the conversation.
Status Chat::answer() {
  conversation_.options() = flags_.chat.options();
  MOE_ASSIGN_OR_RETURN(ChatPrompt prompt, conversation_.prompt());
  const std::vector<int32_t> &tokens = prompt.tokens;
  if (tokens.empty())
    return Status(StatusCode::Usage, "the chat template gives no text");
  if (static_cast<int64_t>(tokens.size()) > engine_.context())
    return Status(StatusCode::DoesNotFit,
                  fmt::format("the conversation has {}, the context {}; /reset "
                              "starts anew",
                              moert::counted(tokens.size(), "token"),
                              engine_.context()));
  MOE_ASSIGN_OR_RETURN(known_, keepShared(sequence_, tokens));
  isNew_ = false;
  MOE_ASSIGN_OR_RETURN(ReplyStream reply,
                       conversation_.reply(prompt, flags_.reply));
  ReplyPrinter printer(flags_.chat.hidesReasoning());
  // After Enter, Ctrl-C applies to the answer, so an earlier one is not cleared
  // here.
  MOE_ASSIGN_OR_RETURN(
      stats_,
      generate(engine_, sequence_, std::span(tokens).subspan(size_t(known_)),
               flags_.sampler, reply,
               [&](const ReplyEvent &event) { return printer.print(event); }));
  moetool::takeInterrupt();
  moetool::printText("\n");
  MOE_RETURN_IF_ERROR(moetool::flush());
  if (stats_.promptTokens == 0)
    return Status(StatusCode::Cancelled,
                  "stopped before the answer; the message is taken back");
  conversation_.addReply(prompt, reply.reply());
  if (stats_.reason == StopReason::Cancelled)
    moetool::note("(stopped)\n");
  if (stats_.reason == StopReason::ContextFull)
    moetool::note("note: the answer ends because the context of {} is full; "
                  "/reset starts anew\n",
                  moert::counted(engine_.context(), "token"));
  if (flags_.stats)
    showStats();
  return Status::ok();
}

/// Saves the conversation. The file that it was read from may be replaced.
Status Chat::save(std::string argument) const {
  constexpr std::string_view force = "--force ";
  bool forced = argument.starts_with(force);
  if (forced)
    argument.erase(0, force.size());
  OutputRule rule = engine_.outputRule(forced, "/save --force FILE");
  if (!flags_.chat.templateFile.empty())
    rule.addInput(kTemplateRole, flags_.chat.templateFile);
  MOE_ASSIGN_OR_RETURN(OutputTarget target,
                       rule.target(argument, OutputKind::Conversation));
  return writeOutput(std::move(target), conversation_.messages().json());
}

StatusOr<Messages> load(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(std::string text,
                       readInput(path, kMostConversationBytes));
  return Messages::parse(text, inputName(path));
}

bool Chat::command(std::string_view line) {
  size_t space = std::min(line.find(' '), line.size());
  std::string_view name = line.substr(0, space);
  std::string argument(line.substr(std::min(space + 1, line.size())));
  Status status;
  if (name == "/exit" || name == "/quit")
    return false;
  if (name == "/help") {
    moetool::noteText(kHelp);
  } else if (name == "/reset") {
    conversation_.messages().reset();
    isNew_ = true;
  } else if (name == "/system") {
    conversation_.messages().reset();
    conversation_.messages().setSystem(argument);
    isNew_ = true;
  } else if (name == "/stats") {
    showStats();
  } else if (name == "/save" || name == "/load") {
    if (argument.empty()) {
      status = Status(StatusCode::Usage, std::string(name) + " FILE");
    } else if (name == "/save") {
      status = save(argument);
    } else {
      StatusOr<Messages> loaded = load(argument);
      status = loaded.status();
      if (loaded) {
        conversation_.messages() = *std::move(loaded);
        isNew_ = true;
      }
    }
  } else if (name == "/think") {
    constexpr std::string_view modes[] = {"show", "hide", "off", "force"};
    if (std::ranges::find(modes, argument) != std::end(modes))
      flags_.chat.think = argument;
    else
      status = Status(StatusCode::Usage, "/think show, hide, off or force");
  } else {
    status = Status(StatusCode::Usage,
                    "no command " + std::string(name) + "; /help lists them");
  }
  if (!status)
    moetool::printError(status);
  return true;
}

/// Answers the last message. If that fails on a terminal, the message is
/// removed and the chat goes on.
Status Chat::reply(const LineReader &reader) {
  Status status = answer();
  if (status || status.code() == StatusCode::Io ||
      status.code() == StatusCode::Internal || !reader.isTerminal())
    return status;
  // The message was rejected by the template, did not fit the context, or was
  // cancelled.
  conversation_.messages().dropLast();
  moetool::printError(status);
  return Status::ok();
}

Status Chat::run(LineReader &reader) {
  if (reader.isTerminal())
    moetool::note("/help lists commands, Ctrl-D ends\n");
  // A conversation from a file may end with an unanswered message.
  if (conversation_.messages().lastRole() == "user")
    MOE_RETURN_IF_ERROR(reply(reader));
  std::string message;
  while (true) {
    LineReader::Event event = reader.read(message);
    if (event == LineReader::Event::End)
      break;
    if (event == LineReader::Event::Interrupted) {
      if (!reader.isTerminal())
        return Status(StatusCode::Cancelled, "interrupted");
      moetool::note("\n(Ctrl-D or /exit ends)\n");
      continue;
    }
    if (message.find_first_not_of(" \t\n") == std::string::npos)
      continue;
    if (message[0] == '/' && message.find('\n') == std::string::npos) {
      if (!command(message))
        break;
      continue;
    }
    conversation_.messages().add("user", message);
    MOE_RETURN_IF_ERROR(reply(reader));
  }
  if (reader.isTerminal())
    moetool::printText("\n");
  return moetool::flush();
}

Status chat(ChatCommandFlags &flags) {
  MOE_RETURN_IF_ERROR(flags.chat.check());
  MOE_ASSIGN_OR_RETURN(Messages messages, flags.chat.messages());
  if (!flags.firstFile.empty()) {
    MOE_ASSIGN_OR_RETURN(const std::string *text,
                         flags.chat.texts->read("the message", flags.firstFile,
                                                kMostConversationBytes));
    messages.add("user", *text);
  } else if (!flags.first.empty()) {
    messages.add("user", typedText(flags.first, flags.chat.escapes));
  }
  MOE_RETURN_IF_ERROR(Sampler::create(flags.sampler).status());
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, flags.engine.open());
  MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, planTokenizer(engine->plan()));
  bool isPlain = flags.chat.templateFile.empty() &&
                 planChatTemplateSource(engine->plan()).empty();
  ChatFormat format = ChatFormat::plain(tokenizer);
  if (isPlain) {
    if (!moetool::isGiven(flags.limit))
      flags.reply.maxTokens = kPlainAnswer;
    moetool::note("note: the model has no chat template: it goes on with the "
                  "text that you type, by {} tokens (-n)\n",
                  flags.reply.maxTokens);
  } else {
    // Report an unusable template before the user types anything.
    MOE_ASSIGN_OR_RETURN(format, flags.chat.format(engine->plan(), tokenizer));
  }
  LineReader reader;
  return Chat(*engine, flags,
              Conversation(std::move(format), std::move(messages)))
      .run(reader);
}
} // namespace

void addChatCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<ChatCommandFlags>();
  CLI::App *command =
      addEngineCommand(tool, "chat", "Talk with the model", flags, chat);
  flags->engine.addModelOrPlan(*command);
  moetool::addOption(*command, rows::firstMessage, flags->first);
  moetool::addOption(*command, rows::firstMessageFile, flags->firstFile);
  flags->chat.add(*command);
  flags->limit =
      moetool::addOption(*command, rows::maxAnswer, flags->reply.maxTokens);
  moetool::addOption(*command, rows::stops, flags->reply.stops);
  addSampling(*command, flags->sampler);
  flags->engine.addThreads(*command);
  flags->engine.addRung(*command);
  flags->engine.addWeights(*command);
  moetool::addOption(*command, rows::stats, flags->stats);
  flags->engine.addCompile(*command);
}

} // namespace moert
