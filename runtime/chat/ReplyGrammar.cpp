#include "runtime/chat/ReplyGrammar.h"

#include "runtime/chat/CallGrammar.h"
#include "runtime/chat/FreeText.h"
#include "runtime/chat/ReplyKey.h"
#include "runtime/constrain/GrammarCache.h"
#include "runtime/text/StreamDecoder.h"

#include <algorithm>

namespace moert {

namespace {
/// Most blanks between the end of the reasoning and the answer.
constexpr int32_t kMostBlanks = 16;
/// Letters of a word in the header of a message.
constexpr int32_t kMostWord = 32;

class ReplyGrammarBuilder {
public:
  explicit ReplyGrammarBuilder(const ReplyWish &wish) : wish_(wish) {
    if (wish.tools)
      calls_.emplace(grammar_, *wish.tools, wish.mustCall, wish.deadline);
  }

  StatusOr<Grammar> run() {
    const RuleId root = grammar_.declare("root");
    MOE_ASSIGN_OR_RETURN(ExprId body,
                         wish_.speech->channels ? messages() : reply());
    grammar_.define(root, body);
    return std::move(grammar_);
  }

private:
  /// Whether the reply may end at any place outside of calls.
  bool isFree() const { return !wish_.mustCall && !wish_.answer; }
  ExprId mark(std::string_view bytes) {
    return grammar_.bytes(std::string(bytes));
  }
  ExprId blanks() {
    return grammar_.repeat(
        grammar_.chars({{' ', ' '}, {'\t', '\t'}, {'\n', '\n'}, {'\r', '\r'}}),
        0, kMostBlanks);
  }
  ExprId repeated(ExprId part) {
    return grammar_.repeat(part, 0, Expr::kUnbounded);
  }

  /// The marks with which calls begin.
  std::vector<std::string_view> callMarks() const {
    std::vector<std::string_view> marks;
    if (wish_.tools)
      for (const ToolFormat &form : *wish_.forms)
        marks.push_back(form.firstMark());
    return marks;
  }

  /// All forms of calls. A bare object may be an answer, unless the reply must
  /// call in the first form.
  StatusOr<ExprId> calls(std::string_view begun = {}) {
    std::vector<ExprId> ways;
    for (const ToolFormat &form : *wish_.forms) {
      if (form.isBare && !(wish_.mustCall && ways.empty()))
        continue;
      MOE_ASSIGN_OR_RETURN(ExprId way,
                           calls_->calls(form, wish_.isParallel, begun));
      ways.push_back(way);
    }
    RuleId rule = grammar_.declare(begun.empty() ? "all-calls" : "begun-calls");
    grammar_.define(rule, grammar_.choice(std::move(ways)));
    return grammar_.rule(rule);
  }

  /// Whether calls can be told from text.
  bool holdsCalls() const {
    return wish_.tools && !wish_.tools->empty() &&
           (wish_.mustCall ||
            std::ranges::any_of(*wish_.forms, [](const ToolFormat &form) {
              return !form.isBare;
            }));
  }

  StatusOr<ExprId> answer() {
    std::vector<ExprId> ways;
    if (wish_.answer && !wish_.mustCall)
      ways.push_back(grammar_.embed(*wish_.answer, "answer-"));
    if (holdsCalls()) {
      MOE_ASSIGN_OR_RETURN(ExprId all, calls());
      if (isFree()) {
        const ExprId text =
            textWithout(grammar_, "text", callMarks(), {.hasControls = true});
        return grammar_.sequence(
            {text, repeated(grammar_.sequence({all, text}))});
      }
      ways.push_back(grammar_.sequence({blanks(), all, blanks()}));
    }
    if (ways.empty())
      return textWithout(grammar_, "text", {}, {.hasControls = true});
    return grammar_.choice(std::move(ways));
  }

  /// Reasoning, if the model has it, and what follows.
  StatusOr<ExprId> reply() {
    const Speech &speech = *wish_.speech;
    MOE_ASSIGN_OR_RETURN(ExprId inner, answer());
    std::vector<ExprId> ends;
    for (const std::string &end : speech.answerEnds)
      ends.push_back(mark(end));
    const ExprId end = ends.empty()
                           ? grammar_.empty()
                           : repeated(grammar_.sequence(
                                 {grammar_.choice(std::move(ends)), blanks()}));
    // Before a call, an answer may be empty.
    const ExprId body =
        grammar_.sequence({grammar_.optional(mark(speech.answerBegin)),
                           holdsCalls() ? end : grammar_.empty(), inner, end});
    if (!speech.reasons())
      return speech.begunMark(wish_.prompt).empty() ? body : begunReply(inner);
    const std::string_view thoughtEnd = withoutBlanks(speech.reasoningEnd);
    std::vector<std::string_view> marks = {thoughtEnd};
    for (std::string_view each : callMarks())
      if (each.starts_with(kControlOpen))
        marks.push_back(each);
    const ExprId thought =
        textWithout(grammar_, "thought", marks, {.hasControls = true});
    std::vector<ExprId> rest = {
        grammar_.sequence({mark(thoughtEnd), blanks(), body})};
    // A call ends the reasoning too, and so may the end of a free reply.
    if (marks.size() > 1) {
      MOE_ASSIGN_OR_RETURN(ExprId all, calls());
      rest.push_back(all);
    }
    if (isFree())
      rest.push_back(grammar_.empty());
    const ExprId inside =
        grammar_.sequence({thought, grammar_.choice(std::move(rest))});
    if (speech.isInside(wish_.prompt))
      return inside;
    std::vector<ExprId> ways = {
        grammar_.sequence({mark(thoughtEnd), blanks(), body}), body};
    if (const std::string_view begin = withoutBlanks(speech.reasoningBegin);
        !begin.empty())
      ways.push_back(grammar_.sequence({blanks(), mark(begin), inside}));
    return grammar_.choice(std::move(ways));
  }

  /// A reply whose first mark the prompt has begun: that of the answer, or of
  /// the first call.
  StatusOr<ExprId> begunReply(ExprId inner) {
    const std::string_view begun = wish_.speech->begunMark(wish_.prompt);
    std::string_view answer = wish_.speech->answerBegin;
    answer.remove_prefix(answer.starts_with(begun) ? begun.size() : 0);
    std::vector<ExprId> ways;
    if (!wish_.mustCall)
      ways.push_back(grammar_.sequence({mark(answer), inner}));
    if (holdsCalls()) {
      MOE_ASSIGN_OR_RETURN(ExprId first, calls(begun));
      ways.push_back(
          grammar_.sequence({first, isFree() ? inner : grammar_.empty()}));
    }
    return grammar_.choice(std::move(ways));
  }

  //===--------------------------------------------------------------------===//
  // Channels
  //===--------------------------------------------------------------------===//

  const Channels &channels() const { return *wish_.speech->channels; }

  /// Returns the words around a channel's name in a template's header.
  std::string channelOf(std::string_view header) const {
    const size_t at = channels().channel.empty()
                          ? header.npos
                          : header.find(channels().channel);
    if (at == header.npos)
      return {};
    header.remove_prefix(at);
    const size_t name = channels().channel.size();
    return std::string(header.substr(0, header.find_first_of(" \xFF", name)));
  }

  ExprId word(int32_t least) {
    return grammar_.repeat(
        grammar_.chars({{'-', '-'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}), least,
        kMostWord);
  }
  /// The type of a message's text: " json", " code".
  ExprId type() {
    return grammar_.choice(
        {grammar_.sequence({grammar_.optional(grammar_.bytes(" ")),
                            mark(controlBytes("<|constrain|>")), word(1)}),
         grammar_.sequence({grammar_.bytes(" "), word(1)})});
  }
  /// Any channel, as models name others than templates do.
  ExprId anyChannel() {
    return grammar_.sequence({mark(channels().channel), word(0)});
  }

  /// The header of a call of this tool, in any order and channel.
  ExprId callHeader(const std::string &name) {
    const ExprId to =
        grammar_.sequence({grammar_.bytes(" to="),
                           grammar_.optional(grammar_.bytes("functions.")),
                           grammar_.bytes(name)});
    if (channels().channel.empty())
      return grammar_.sequence({to, mark(channels().body)});
    const ExprId others =
        grammar_.repeat(grammar_.choice({anyChannel(), type()}), 0, 3);
    // Some models write the receiver twice: before the channel and behind it.
    const ExprId again = grammar_.optional(grammar_.sequence({to, others}));
    return grammar_.sequence(
        {others, to, others, again, mark(channels().body)});
  }

  StatusOr<ExprId> callMessage(const Tool &tool) {
    const ToolFormat &form = wish_.forms->front();
    const bool isHeader = form.nameClose == channels().body;
    MOE_ASSIGN_OR_RETURN(ExprId body, isHeader ? calls_->arguments(tool)
                                               : oneCall(form, tool));
    return grammar_.sequence({callHeader(tool.name), body});
  }

  StatusOr<ExprId> oneCall(const ToolFormat &form, const Tool &tool) {
    MOE_ASSIGN_OR_RETURN(ExprId call, calls_->call(form, tool));
    return grammar_.sequence(
        {mark(form.sectionOpen), call, mark(form.sectionClose)});
  }

  StatusOr<ExprId> messages() {
    std::vector<std::string_view> marks(channels().ends.begin(),
                                        channels().ends.end());
    marks.insert(marks.end(), {channels().start, channels().body});
    const ExprId text =
        textWithout(grammar_, "text", marks, {.hasControls = true});
    std::vector<ExprId> ends = {grammar_.empty()};
    for (const std::string &end : channels().ends)
      ends.push_back(mark(end));
    const ExprId end = grammar_.choice(std::move(ends));
    const ExprId next = grammar_.sequence({end, mark(channels().start)});
    const ExprId body = mark(channels().body);
    // Reasoning, and the text that a model writes before it calls.
    std::vector<ExprId> headers = {mark(channels().reasoning)};
    if (holdsCalls() && isFree())
      headers.push_back(mark(channels().answer));
    if (const std::string channel = channelOf(channels().call);
        !channel.empty())
      headers.push_back(mark(channel));
    ExprId header = grammar_.choice(std::move(headers));
    if (isFree() && !channels().channel.empty())
      header = grammar_.sequence(
          {grammar_.choice({header, anyChannel()}), grammar_.optional(type())});
    const ExprId before =
        repeated(grammar_.sequence({header, body, text, next}));
    std::vector<ExprId> last;
    if (!wish_.mustCall) {
      const ExprId said =
          wish_.answer ? grammar_.embed(*wish_.answer, "answer-") : text;
      ExprId all = grammar_.sequence(
          {mark(channels().answer), grammar_.optional(type()), body, said});
      if (isFree())
        all = grammar_.choice(
            {all, grammar_.sequence({header, body, text}), text});
      last.push_back(all);
    }
    if (holdsCalls()) {
      std::vector<ExprId> each;
      for (const Tool &tool : *wish_.tools) {
        MOE_ASSIGN_OR_RETURN(ExprId one, callMessage(tool));
        each.push_back(one);
      }
      const ExprId one = grammar_.choice(std::move(each));
      last.push_back(wish_.isParallel
                         ? grammar_.sequence(
                               {one, repeated(grammar_.sequence({next, one}))})
                         : one);
    }
    const ExprId all =
        grammar_.sequence({before, grammar_.choice(std::move(last)), end});
    if (!wish_.speech->hasBegunMessage(wish_.prompt))
      return all;
    std::vector<ExprId> ways = {grammar_.sequence({text, next, all})};
    if (!wish_.mustCall)
      ways.push_back(
          wish_.answer ? grammar_.embed(*wish_.answer, "begun-answer-") : text);
    return grammar_.choice(std::move(ways));
  }

  const ReplyWish &wish_;
  Grammar grammar_;
  std::optional<CallGrammar> calls_;
};
} // namespace

StatusOr<std::shared_ptr<const Automaton>> replyGrammar(const ReplyWish &wish) {
  ReplyWish wanted = wish;
  // A reply whose calls cannot be told from text is free.
  if (wanted.tools && (wanted.tools->empty() || wanted.forms->empty()))
    wanted.tools = nullptr;
  if (!wanted.answer &&
      (!wanted.tools ||
       (!wanted.mustCall &&
        std::ranges::all_of(*wanted.forms, &ToolFormat::isBare))))
    return std::shared_ptr<const Automaton>();
  auto make = [&]() -> GrammarCache::Compiled {
    MOE_ASSIGN_OR_RETURN(Grammar grammar, ReplyGrammarBuilder(wanted).run());
    MOE_ASSIGN_OR_RETURN(
        Automaton automaton,
        Automaton::compile(grammar, Automaton::kMaxStates, wanted.deadline));
    return std::make_shared<const Automaton>(std::move(automaton));
  };
  if (wanted.answer && wanted.answerKey.empty())
    return make();
  return sharedGrammars().get(replyKey(wanted), make);
}

StatusOr<std::shared_ptr<const Automaton>>
answerGrammar(const Grammar &answer, const Speech &speech,
              std::string_view prompt) {
  ReplyWish wish;
  wish.speech = &speech;
  wish.prompt = prompt;
  wish.answer = &answer;
  return replyGrammar(wish);
}

} // namespace moert
