#include "runtime/chat/SpeechProbe.h"

#include "runtime/chat/CallProbe.h"
#include "runtime/chat/MarkText.h"
#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
constexpr std::string_view kAnswer = "zqanswer", kThought = "zqthought";
/// Most names of tokens that are shown to people.
constexpr size_t kMostEnds = 16;

/// Families whose headers name each message, by the control tokens that they
/// have. A family that writes `channel` comes first.
struct ChannelFamily {
  std::string_view channel, end;
  std::string_view reasoning, answer, call;
};
constexpr std::string_view kStart = "<|start|>", kBody = "<|message|>";
constexpr ChannelFamily kChannelFamilies[] = {
    // gpt-oss
    {"<|channel|>", "<|end|>", "<|channel|>analysis", "<|channel|>final",
     " to=functions.\x01<|channel|>commentary json"},
    // Muse
    {"", "<|eom|>", " to=self", " to=user", " to=\x01"},
};

class SpeechLearner {
public:
  SpeechLearner(const RenderVariables &render, const Tokenizer &tokenizer)
      : render_(render), tokenizer_(tokenizer) {}

  Speech run() {
    prompt_ = promptText({});
    const Json answer = {{"role", "assistant"}, {"content", kAnswer}};
    const std::string answered = tailOf({answer}, {});
    if (const size_t at = answered.find(kAnswer); at != answered.npos) {
      answerHead_ = answered.substr(0, at);
      answerTail_ = answered.substr(at + kAnswer.size());
    }
    learnChannels();
    if (!speech_.channels) {
      learnReasoning();
      if (!speech_.answerBegin.empty())
        learnAnswerEnd();
    }
    speech_.beginsInside = speech_.isInside(prompt_);
    learnTools();
    // The text behind answers is also behind calls, whose marks do not include
    // it.
    if (!speech_.channels && speech_.answerEnds.empty())
      learnAnswerEnd();
    for (int32_t id = 0; id < tokenizer_.vocabularySize(); ++id)
      if (tokenizer_.isEndOfGeneration(id) && speech_.ends.size() < kMostEnds)
        speech_.ends.emplace_back(tokenizer_.tokenBytes(id));
    return std::move(speech_);
  }

private:
  std::string marked(std::string_view text) const {
    return withControls(text, tokenizer_);
  }

  /// What follows the question, with these messages after it; "" if the
  /// template refuses them.
  std::string tailOf(const std::vector<Json> &messages, const Json &variables,
                     bool isPrompt = false) const {
    Json all = {{"messages", Json::array({probeQuestion()})},
                {"add_generation_prompt", isPrompt}};
    for (const Json &message : messages)
      all["messages"].push_back(message);
    if (variables.is_object())
      all.update(variables);
    auto text = render_(all);
    // Some templates fail without a list of tools.
    if (!text) {
      all["tools"] = Json::array();
      text = render_(all);
    }
    return text ? std::string(afterQuestion(*text)) : std::string();
  }
  std::string promptText(const Json &variables) const {
    return tailOf({}, variables, /*isPrompt=*/true);
  }
  static Json thinking(bool isOn) {
    return {{"enable_thinking", isOn}, {"thinking", isOn}};
  }

  /// Whether text is one special token: it is one token inside of words too.
  bool isSpecial(std::string_view name) const {
    auto tokens = tokenizer_.encode(
        "a" + std::string(name) + "a",
        {.addBos = false, .addEos = false, .startsText = false});
    return tokens && std::ranges::any_of(*tokens, [&](int32_t token) {
             return tokenizer_.tokenBytes(token) == name;
           });
  }
  /// Whether all tags of a mark are special tokens.
  bool isKnown(std::string_view mark) const {
    bool hasTag = false;
    for (std::string_view atom : atomsOf(namedControls(mark))) {
      if (atom.size() < 3)
        continue;
      // A section's mark has two tags.
      const size_t close = atom.find("<|sep|>");
      const bool isSection = atom.size() > 7 && close == atom.size() - 7;
      const std::string_view first =
          isSection ? atom.substr(0, atom.find("|>") + 2) : atom;
      if (!isSpecial(first) || (isSection && !isSpecial("<|sep|>")))
        return false;
      hasTag = true;
    }
    return hasTag;
  }

  //===--------------------------------------------------------------------===//
  // Channels
  //===--------------------------------------------------------------------===//

  void learnChannels() {
    const std::string_view prompt = withoutBlanksAtEnd(prompt_);
    const size_t start = prompt.rfind(kStart);
    if (start == prompt.npos || !isSpecial(kStart) || !isSpecial(kBody) ||
        prompt.find(kBody, start) != prompt.npos)
      return;
    for (const ChannelFamily &family : kChannelFamilies) {
      if ((!family.channel.empty() && !isSpecial(family.channel)) ||
          !isSpecial(family.end))
        continue;
      Channels channels;
      channels.start = marked(prompt.substr(start));
      channels.body = marked(kBody);
      channels.channel = marked(family.channel);
      channels.reasoning = marked(family.reasoning);
      channels.answer = marked(family.answer);
      channels.call = marked(family.call);
      for (std::string_view end :
           {std::string_view("<|end|>"), std::string_view("<|eom|>"),
            std::string_view("<|call|>")})
        if (isSpecial(end))
          if (std::string mark = marked(end); !mark.empty())
            channels.ends.push_back(std::move(mark));
      speech_.channels = std::move(channels);
      return;
    }
  }

  //===--------------------------------------------------------------------===//
  // Reasoning
  //===--------------------------------------------------------------------===//

  void learnReasoning() {
    if (!fromMessage() && !fromSwitch() && !fromPrompt())
      fromVocabulary();
    // Sections have similar names: where reasoning is a section, answers are
    // too.
    if (withoutBlanks(namedControls(speech_.reasoningEnd))
            .starts_with("<|close|>") &&
        speech_.answerBegin.empty()) {
      speech_.answerBegin = marked("<|open|>response<|sep|>");
      speech_.answerEnds = {marked("<|close|>response<|sep|>"),
                            marked("<|close|>message<|sep|>")};
    }
  }

  void set(std::string_view begin, std::string_view end) {
    speech_.reasoningBegin = marked(begin);
    speech_.reasoningEnd = marked(end);
  }

  /// A reasoning and an answer in a message of the assistant.
  bool fromMessage() {
    const Json answer = {{"type", "text"}, {"text", kAnswer}};
    const Json thought = {{"type", "thinking"}, {"thinking", kThought}};
    const std::vector<Json> messages = {
        {{"role", "assistant"},
         {"content", kAnswer},
         {"reasoning_content", kThought},
         {"reasoning", kThought},
         {"thinking", kThought}},
        {{"role", "assistant"}, {"content", Json::array({thought, answer})}}};
    for (const Json &message : messages) {
      const std::string text = tailOf({message}, thinking(true));
      const size_t first = text.find(kThought), second = text.find(kAnswer);
      if (first == text.npos || second == text.npos || second < first)
        continue;
      // A template that knows no parts writes the list as it is.
      const std::string_view all = text;
      if (all.substr(first, second - first).find("type") != all.npos)
        continue;
      return fromParts(all.substr(0, first),
                       all.substr(first + kThought.size(),
                                  second - first - kThought.size()));
    }
    return false;
  }

  /// Finds the marks from the texts before the reasoning, and between it and
  /// the answer.
  bool fromParts(std::string_view before, std::string_view between) {
    const std::vector<std::string_view> atoms = atomsOf(withoutBlanks(between));
    if (atoms.empty())
      return false;
    if (fromOwnMessage(before, between))
      return true;
    // Usually one mark ends the reasoning, and its opening one is known by it.
    const std::string_view end = atoms.front();
    const std::string opener = openerOf(end);
    if (!opener.empty() && withoutBlanksAtEnd(before).ends_with(opener)) {
      set(opener, end);
      speech_.answerBegin =
          marked(withoutBlanks(withoutBlanks(between).substr(end.size())));
      return true;
    }
    const std::string_view answer =
        withoutBlanks(commonEnd(between, answerHead_));
    const std::string_view rest = withoutBlanks(between.substr(
        0, between.size() - commonEnd(between, answerHead_).size()));
    std::string_view begin = before.substr(commonBegin(before, prompt_).size());
    // Prompts may begin the reasoning by words that earlier turns lack.
    if (withoutBlanks(begin).empty())
      begin =
          std::string_view(prompt_).substr(commonBegin(prompt_, before).size());
    if (rest.empty())
      return false;
    set(withoutBlanks(begin), rest);
    speech_.answerBegin = marked(answer);
    return true;
  }

  /// A reasoning that is a message of its own: the header that prompts end with
  /// stands behind it too, and marks tell what each message is.
  bool fromOwnMessage(std::string_view before, std::string_view between) {
    const std::string_view prompt = withoutBlanksAtEnd(prompt_);
    size_t at = prompt.size();
    const std::vector<std::string_view> atoms = atomsOf(prompt);
    for (size_t i = atoms.size(); i-- > 0;) {
      at -= atoms[i].size();
      if (atoms[i].size() > 2 && isSpecial(atoms[i]))
        break;
    }
    const std::string_view header = prompt.substr(at);
    const std::string_view begin =
        withoutBlanks(before.substr(commonBegin(before, prompt_).size()));
    const size_t place = header.empty() ? header.npos : between.find(header);
    if (place == between.npos || !hasTag(header) || begin.empty())
      return false;
    set(begin, withoutBlanks(between.substr(0, place + header.size())));
    speech_.answerBegin =
        marked(withoutBlanks(between.substr(place + header.size())));
    // Another message may follow an answer.
    speech_.answerEnds = {marked(header)};
    return true;
  }

  /// Compares prompts: with reasoning switched off, they have an empty one.
  bool fromSwitch() {
    const std::string off = promptText(thinking(false)),
                      on = promptText(thinking(true));
    for (const std::string &text : {off, prompt_, answerHead_}) {
      const std::vector<std::string_view> atoms =
          atomsOf(withoutBlanksAtEnd(text));
      if (atoms.empty())
        continue;
      const std::string_view end = atoms.back();
      const std::string opener = openerOf(end);
      const std::string_view before =
          withoutBlanksAtEnd(withoutBlanksAtEnd(text).substr(
              0, withoutBlanksAtEnd(text).size() - end.size()));
      if (!opener.empty() && before.ends_with(opener)) {
        set(opener, end);
        return true;
      }
      // Then other pairs: the last mark of the text that the switch adds is the
      // end.
      const std::string_view added = withoutBlanks(
          std::string_view(text).substr(commonBegin(text, on).size()));
      if (text != on && added.size() > end.size() && end.size() > 2 &&
          atomsOf(added).front().size() > 2) {
        set(withoutBlanks(added.substr(0, added.size() - end.size())), end);
        return true;
      }
    }
    return false;
  }

  /// Finds prompts that begin the reasoning.
  bool fromPrompt() {
    for (const std::string &text : {promptText(thinking(true)), prompt_}) {
      const std::vector<std::string_view> atoms =
          atomsOf(withoutBlanksAtEnd(text));
      if (atoms.empty())
        continue;
      const std::string_view begin = atoms.back();
      const std::string closer = closerOf(begin);
      // The mark of a role has no end of its own.
      if (begin.size() < 3 || closer.empty() || !isThought(begin) ||
          isKnown(begin) != isKnown(closer))
        continue;
      set(begin, closer);
      return true;
    }
    return false;
  }

  /// Whether a mark's name says that it is about reasoning.
  static bool isThought(std::string_view mark) {
    std::string name(mark);
    std::ranges::transform(name, name.begin(), [](unsigned char c) {
      return char(std::tolower(c));
    });
    return name.find("think") != name.npos ||
           name.find("reason") != name.npos ||
           name.find("thought") != name.npos;
  }

  /// Finds two special tokens that open and close reasoning.
  bool fromVocabulary() {
    for (int32_t id = 0; id < tokenizer_.vocabularySize(); ++id) {
      const std::string_view name = tokenizer_.tokenBytes(id);
      if (name.size() < 3 || !isThought(name) || atomsOf(name).size() != 1)
        continue;
      const std::string closer = closerOf(name);
      if (!closer.empty() && isSpecial(name) && isSpecial(closer)) {
        set(name, closer);
        return true;
      }
    }
    return false;
  }

  void learnAnswerEnd() {
    // The text behind an answer, up to the end of the model's turn.
    const std::string tail = marked(answerTail_);
    std::vector<std::string> ends;
    for (std::string_view atom : atomsOf(tail))
      if (atom.find(kControlOpen) != atom.npos)
        ends.emplace_back(atom);
    speech_.answerEnds.insert(speech_.answerEnds.begin(), ends.begin(),
                              ends.end());
  }

  //===--------------------------------------------------------------------===//
  // Tools
  //===--------------------------------------------------------------------===//

  void learnTools() {
    const Json tool = {
        {"type", "function"},
        {"function",
         {{"name", "zqtool"},
          {"description", "d"},
          {"parameters",
           {{"type", "object"}, {"properties", Json::object()}}}}}};
    auto text = render_({{"messages", Json::array({probeQuestion()})},
                         {"tools", Json::array({tool})},
                         {"add_generation_prompt", true}});
    speech_.tellsTools = text && text->find("zqtool") != text->npos;
    CallProbeSetting setting;
    setting.answerHead = answerHead_;
    setting.answerTail = answerTail_;
    setting.prompt = prompt_;
    setting.answerMarks = speech_.answerEnds;
    setting.answerMarks.insert(
        setting.answerMarks.end(),
        {speech_.answerBegin, speech_.reasoningBegin, speech_.reasoningEnd});
    setting.channels = &speech_.channels;
    LearnedCalls learned = learnCalls(render_, tokenizer_, setting);
    speech_.calls = std::move(learned.forms);
    // An answer goes on with the same mark.
    if (!learned.begun.empty() && answerHead_.size() > prompt_.size() &&
        answerHead_.starts_with(prompt_)) {
      speech_.begun = learned.begun;
      speech_.answerBegin =
          marked(learned.begun + answerHead_.substr(prompt_.size()));
    }
  }

  const RenderVariables &render_;
  const Tokenizer &tokenizer_;
  Speech speech_;
  std::string prompt_; ///< Text between the question and a reply.
  std::string answerHead_, answerTail_;
};
} // namespace

Speech learnSpeech(const RenderVariables &render, const Tokenizer &tokenizer) {
  return SpeechLearner(render, tokenizer).run();
}

} // namespace moert
