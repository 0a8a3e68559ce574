#include "runtime/chat/CallProbe.h"

#include "runtime/chat/CallForms.h"
#include "runtime/chat/CallTrial.h"
#include "runtime/chat/MarkText.h"
#include "runtime/chat/ProbeCalls.h"
#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <optional>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
class CallLearner {
public:
  CallLearner(const RenderVariables &render, const Tokenizer &tokenizer,
              const CallProbeSetting &setting)
      : writer_(render, tokenizer, setting), tokenizer_(tokenizer),
        channels_(*setting.channels) {}

  LearnedCalls run() {
    LearnedCalls learned;
    std::vector<ToolFormat> &forms = learned.forms;
    const std::string told = writer_.toolsText();
    if (const std::optional<CallSamples> samples = writer_.samples())
      if (std::optional<ToolFormat> own = ownForm(*samples, told)) {
        forms.push_back(*own);
        learned.begun = writer_.begun();
      }
    // The description of tools may show another form than earlier turns do.
    const bool hasOwn = !forms.empty();
    for (const ToolFormat &known : knownToolFormats(told, tokenizer_)) {
      const std::string_view mark = markOf(known.firstMark());
      if (hasOwn &&
          (told.find(mark) == told.npos ||
           namedControls(forms.front().firstMark()).find(mark) != mark.npos))
        continue;
      forms.push_back(withControls(known, tokenizer_));
    }
    return learned;
  }

private:
  std::optional<ToolFormat> ownForm(const CallSamples &samples,
                                    std::string_view told) const {
    const WrittenCalls &one = samples.one;
    // The header of a message is what calls, if the message is the arguments.
    if (channels_ && Json::accept(withoutBlanks(one.text)))
      return withControls(*toolFormatNamed("gpt-oss"), tokenizer_);
    // What is known of a form is more than one text shows. A form that reads
    // what it would not have written so is the last resort.
    std::vector<ToolFormat> forms;
    for (const ToolFormat &known : knownToolFormats(
             namedControls(one.text) + std::string(told), tokenizer_))
      forms.push_back(withControls(known, tokenizer_));
    for (ToolFormat &form : guessedForms(samples))
      forms.push_back(form.body == ToolFormat::Body::Tagged
                          ? withTypes(std::move(form))
                          : std::move(form));
    auto all = [&](bool (*holds)(const ToolFormat &, const WrittenCalls &),
                   const ToolFormat &form) {
      return holds(form, one) && (!samples.two || holds(form, *samples.two));
    };
    std::erase_if(
        forms, [&](const ToolFormat &form) { return !all(readsCalls, form); });
    auto best = std::ranges::find_if(
        forms, [&](const ToolFormat &form) { return all(saysCalls, form); });
    if (best == forms.end())
      best = forms.begin();
    return best == forms.end() ? std::nullopt : std::optional(*best);
  }

  /// Some templates put marks around a text that could be taken for marks.
  void learnTextMarks(ToolFormat &form) const {
    constexpr std::string_view value = "<vq>";
    const std::optional<WrittenCalls> written =
        writer_.write({{kProbeNames[0], {{"zqmarkup", value}}}});
    if (!written)
      return;
    const std::string_view text = written->text;
    const std::string_view last = markOf(
        form.valueOpen.empty() ? form.parameterNameClose : form.valueOpen);
    const size_t at = text.find(value);
    const size_t close =
        at == text.npos ? at : text.find(markOf(form.closeOf("zqmarkup")), at);
    const size_t open = at == text.npos ? at : text.rfind(last, at);
    if (open == text.npos || close == text.npos)
      return;
    const std::string_view before =
        withoutBlanks(text.substr(open + last.size(), at - open - last.size()));
    const std::string_view after = withoutBlanks(
        text.substr(at + value.size(), close - at - value.size()));
    if (before.empty() || after.empty())
      return;
    form.textOpen = before;
    form.textClose = after;
  }

  /// Learns the text in front of values of each type, and the form of values.
  ToolFormat withTypes(ToolFormat form) const {
    std::optional<WrittenCalls> typed = writer_.write({typedCall()});
    if (!typed)
      return form;
    // Some templates leave null out.
    if (typed->text.find("zqnull") == typed->text.npos)
      typed->calls[0].arguments.erase("zqnull");
    std::map<std::string, std::string> before;
    const std::string mark = form.parameterNameClose;
    const std::string_view last = atomsOf(mark).back();
    for (const auto &[key, value] : typed->calls[0].arguments.items()) {
      const size_t at = typed->text.find(key);
      if (at == typed->text.npos)
        continue;
      const std::string_view rest =
          std::string_view(typed->text).substr(at + key.size());
      if (const size_t end = rest.find(last); end != rest.npos)
        before[value.is_number_integer() ? "integer" : value.type_name()] =
            rest.substr(0, end + last.size());
    }
    const std::string &string = before["string"];
    bool differs = false;
    for (const auto &[type, other] : before)
      differs |= other != string;
    if (differs) {
      const std::vector<std::string_view> atoms = atomsOf(string);
      form.parameterNameClose = atoms.front();
      form.valueOpen = atoms.size() > 1 ? atoms.back() : std::string_view();
      const size_t around =
          form.parameterNameClose.size() + form.valueOpen.size();
      for (const auto &[type, mark] : before)
        if (mark.starts_with(form.parameterNameClose) &&
            mark.ends_with(form.valueOpen) && mark.size() >= around)
          form.typeAttributes[type] =
              mark.substr(form.parameterNameClose.size(), mark.size() - around);
      if (!form.typeAttributes.contains("null"))
        form.typeAttributes["null"] = form.attributesOf("object");
    }
    learnTextMarks(form);
    // The notation that reads all of it is the model's.
    for (auto values :
         {ToolFormat::Values::Python, ToolFormat::Values::Nested}) {
      form.values = values;
      if (readsCalls(form, *typed))
        break;
      form.values = ToolFormat::Values::Json;
    }
    if (form.values == ToolFormat::Values::Python &&
        typed->text.find("True") == typed->text.npos)
      form.values = ToolFormat::Values::Json;
    return form;
  }

  CallWriter writer_;
  const Tokenizer &tokenizer_;
  const std::optional<Channels> &channels_;
};
} // namespace

LearnedCalls learnCalls(const RenderVariables &render,
                        const Tokenizer &tokenizer,
                        const CallProbeSetting &setting) {
  return CallLearner(render, tokenizer, setting).run();
}

} // namespace moert
