// Functions for text, tokens and conversations.
#include "runtime/base/JsonPlace.h"
#include "runtime/chat/ChatFormat.h"
#include "runtime/text/StreamDecoder.h"
#include "tools/libmoert/Handles.h"

using namespace moert;
using namespace moert::capi;

std::string moert::capi::bytesOf(const Tokenizer &tokenizer,
                                 std::span<const int32_t> ids,
                                 bool controlNames) {
  if (!controlNames)
    return tokenizer.decode(ids);
  std::string bytes;
  for (size_t begin = 0; begin < ids.size();) {
    size_t end = begin;
    while (end < ids.size() && !tokenizer.isControl(ids[end]))
      ++end;
    bytes += tokenizer.decode(ids.subspan(begin, end - begin));
    if (end < ids.size())
      bytes += tokenizer.tokenBytes(ids[end++]);
    begin = end;
  }
  return bytes;
}

Status moert::capi::checkTokens(const Engine &engine,
                                std::span<const int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= engine.vocab())
      return Status(StatusCode::Usage, "token " + std::to_string(ids[i]) +
                                           " at index " + std::to_string(i) +
                                           " is outside the vocabulary of " +
                                           std::to_string(engine.vocab()));
  return Status::ok();
}

namespace {
/// Returns the messages of a call, from the array or from the variables.
StatusOr<Messages> messagesOf(const moert_message *messages, size_t count,
                              const moert_chat_options &options) {
  if (!messages && count > 0)
    return nullPointer();
  Messages result;
  if (options.variables) {
    StatusOr<nlohmann::ordered_json> json =
        parseJson("variables", options.variables, kMostConversationNesting);
    if (!json)
      return Status(StatusCode::Usage, json.status().message());
    if (!json->is_object())
      return Status(StatusCode::Usage, "variables are not a JSON object");
    if (json->contains("messages") && count > 0)
      return Status(StatusCode::Usage,
                    "messages are given twice: as an array and as a variable");
    if (!json->contains("messages"))
      (*json)["messages"] = nlohmann::ordered_json::array();
    MOE_ASSIGN_OR_RETURN(result, Messages::fromJson(*std::move(json)));
  }
  for (const moert_message &message : std::span(messages, count)) {
    if (!message.role || !message.content)
      return nullPointer();
    result.add(message.role, message.content);
  }
  return result;
}

StatusOr<ChatFormat> formatOf(const Engine &engine, const Tokenizer &tokenizer,
                              const moert_chat_options &options) {
  return options.chat_template
             ? ChatFormat::fromTemplate(options.chat_template, tokenizer)
             : ChatFormat::create(engine.plan(), tokenizer);
}

StatusOr<ChatOptions> fromC(const moert_chat_options &options) {
  if (options.thinking < MOERT_THINK_DEFAULT ||
      options.thinking > MOERT_THINK_FORCED)
    return Status(StatusCode::Usage, "thinking is not a moert_thinking");
  ChatOptions result;
  result.thinking = static_cast<Thinking>(options.thinking);
  result.noSpecial = options.no_special != 0;
  return result;
}
static_assert(int(Thinking::Off) == MOERT_THINK_OFF &&
              int(Thinking::Forced) == MOERT_THINK_FORCED);

/// Calls `use(format, messages, options)` for a conversation.
template <class F>
moert_status withChat(moert_engine *handle, const moert_message *messages,
                      size_t count, const moert_chat_options *given, F use) {
  return withTokenizer(
      handle, [&](Engine &engine, const Tokenizer &tokenizer) -> Status {
        MOE_ASSIGN_OR_RETURN(moert_chat_options options,
                             optionsFrom<moert_chat_options>(given));
        MOE_ASSIGN_OR_RETURN(ChatOptions chat, fromC(options));
        MOE_ASSIGN_OR_RETURN(Messages all,
                             messagesOf(messages, count, options));
        MOE_ASSIGN_OR_RETURN(ChatFormat format,
                             formatOf(engine, tokenizer, options));
        return use(format, all, chat);
      });
}
} // namespace

const std::shared_ptr<const Speech> &
moert::capi::speechOf(moert_engine &handle) {
  if (!handle.speech) {
    auto format = ChatFormat::create(handle.engine->plan(), *handle.tokenizer);
    handle.speech =
        format ? format->speech() : std::make_shared<const Speech>();
  }
  return handle.speech;
}

moert_status moert_tokenize(moert_engine *handle, const char *text,
                            size_t bytes, int addBos, int32_t *ids,
                            size_t capacity, size_t *count) {
  return withTokenizer(
      handle, [&](Engine &, const Tokenizer &tokenizer) -> Status {
        if (!text && bytes)
          return nullPointer();
        EncodeOptions options;
        options.addBos = addBos != 0;
        MOE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                             tokenizer.encode({text, bytes}, options));
        return copyOut(tokens, "token", ids, capacity, count);
      });
}

moert_status moert_detokenize(moert_engine *handle, const int32_t *ids,
                              size_t count, uint32_t flags, char *text,
                              size_t capacity, size_t *bytes) {
  return withTokenizer(
      handle, [&](Engine &engine, const Tokenizer &tokenizer) -> Status {
        if (!ids && count)
          return nullPointer();
        MOE_RETURN_IF_ERROR(checkTokens(engine, {ids, count}));
        std::string result = bytesOf(tokenizer, {ids, count},
                                     (flags & MOERT_CONTROL_NAMES) != 0);
        if (!(flags & MOERT_RAW_BYTES)) {
          Utf8Stream utf8;
          std::string whole = utf8.push(result);
          result = whole + utf8.finish();
        }
        return copyOut(result, "byte", text, capacity, bytes);
      });
}

moert_status moert_chat_text(moert_engine *handle,
                             const moert_message *messages, size_t count,
                             const moert_chat_options *given, char *text,
                             size_t capacity, size_t *bytes) {
  return withChat(handle, messages, count, given,
                  [&](const ChatFormat &format, const Messages &all,
                      const ChatOptions &options) -> Status {
                    MOE_ASSIGN_OR_RETURN(std::string rendered,
                                         format.render(all, options));
                    return copyOut(rendered, "byte", text, capacity, bytes);
                  });
}

moert_status moert_chat_tokens(moert_engine *handle,
                               const moert_message *messages,
                               size_t messageCount,
                               const moert_chat_options *given, int32_t *ids,
                               size_t capacity, size_t *count) {
  return withChat(
      handle, messages, messageCount, given,
      [&](const ChatFormat &format, const Messages &all,
          const ChatOptions &options) -> Status {
        MOE_ASSIGN_OR_RETURN(ChatPrompt prompt, format.prompt(all, options));
        return copyOut(prompt.tokens, "token", ids, capacity, count);
      });
}
