#include "runtime/chat/Conversation.h"

namespace moert {

StatusOr<ChatPrompt> Conversation::prompt() const {
  ChatPrompt prompt;
  MOE_ASSIGN_OR_RETURN(prompt.text, format_.render(messages_, options_));
  if (progressText_.empty() || !prompt.text.starts_with(progressText_)) {
    MOE_ASSIGN_OR_RETURN(prompt.tokens, format_.encode(prompt.text, options_));
    return prompt;
  }
  MOE_ASSIGN_OR_RETURN(
      std::vector<int32_t> rest,
      format_.encode(std::string_view(prompt.text).substr(progressText_.size()),
                     options_, /*continues=*/true));
  prompt.tokens = heardTokens_;
  prompt.tokens.insert(prompt.tokens.end(), rest.begin(), rest.end());
  return prompt;
}

void Conversation::addReply(const ChatPrompt &prompt, const Reply &reply) {
  messages_.add("assistant", reply.text, reply.reasoning);
  progressText_ = prompt.text + reply.raw;
  heardTokens_ = prompt.tokens;
  heardTokens_.insert(heardTokens_.end(), reply.tokens.begin(),
                      reply.tokens.end());
  if (reply.reason != StopReason::StopString)
    return;
  // The reply's text ends before the stop string, so the tokens that contain it
  // are left out as well.
  size_t end = prompt.text.size(), kept = prompt.tokens.size();
  for (; kept < heardTokens_.size(); ++kept) {
    std::string_view bytes = format_.tokenizer().tokenBytes(heardTokens_[kept]);
    if (!std::string_view(progressText_).substr(end).starts_with(bytes))
      break;
    end += bytes.size();
  }
  heardTokens_.resize(kept);
  progressText_.resize(end);
}

} // namespace moert
