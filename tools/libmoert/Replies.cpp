// Functions of replies.
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "tools/libmoert/Handles.h"
#include "tools/libmoert/OwnedEvent.h"
#include "tools/libmoert/Requests.h"

using namespace moert;
using namespace moert::capi;

struct moert_reply {
  moert_reply(moert_engine *owner, ReplyStream &&taken, ToolUse &&tools)
      : engine(owner), stream(std::move(taken)), use(std::move(tools)),
        pieces(*owner->tokenizer, use, choice) {
    ++engine->replies;
  }
  ~moert_reply() { --engine->replies; }

  moert_engine *engine;
  ReplyStream stream;
  ToolUse use;
  Choice choice;
  ChoiceStream pieces;
};

namespace {
/// Reads `tools` of a moert_reply_options, which is not null.
StatusOr<ToolUse> toolsOf(const std::shared_ptr<const Speech> &speech,
                          const char *text) {
  ToolUse use;
  ChatCall call;
  MOE_RETURN_IF_ERROR(readJson("tools", text, [&](const Field &tools) {
    if (!tools.isList())
      return tools.mustBe("a list of tools");
    for (const Field &tool : tools.list(kMostTools))
      readOpenAiTool(tool, /*isFlat=*/false, call);
  }));
  use.tools = std::move(call.tools);
  use.formats = {speech, &speech->calls};
  if (speech->calls.empty())
    return Status(StatusCode::Unsupported,
                  "the model's chat template has no form for calls of tools "
                  "that is known");
  use.newCallId = [settings = ApiSettings()] {
    return newCallId(settings, "call_");
  };
  return use;
}

/// Passes on the results of `events`.
Status send(moert_reply &reply, std::vector<ReplyEvent> events,
            moert_event_callback callback, void *user) {
  GenerationEvent event;
  event.isEnd = !events.empty() && events.back().kind == ReplyEvent::Kind::End;
  event.events = std::move(events);
  if (event.isEnd)
    event.reply.reason = reply.stream.reply().reason;
  reply.pieces.receive(event, [&](const Delta &delta) {
    OwnedEvent piece(delta, reply.choice);
    callback(user, &piece.view());
  });
  if (reply.pieces.isMalformed())
    return reply.pieces.failure();
  if (event.isEnd) {
    OwnedEvent end(reply.choice, Status::ok());
    callback(user, &end.view());
  }
  return Status::ok();
}
} // namespace

moert_status moert_reply_create(moert_engine *handle, const char *prompt,
                                size_t bytes, const moert_reply_options *given,
                                moert_reply **reply) {
  return withTokenizer(
      handle, [&](Engine &, const Tokenizer &tokenizer) -> Status {
        if ((!prompt && bytes) || !reply)
          return nullPointer();
        moert_reply_options defaults = {};
        defaults.max_tokens = -1;
        MOE_ASSIGN_OR_RETURN(moert_reply_options options,
                             optionsFrom(given, defaults));
        ReplyOptions wanted;
        wanted.maxTokens = options.max_tokens;
        wanted.ignoreEos = options.ignore_eos != 0;
        if (options.is_chat != 0)
          wanted.speech = speechOf(*handle);
        wanted.findsCalls = options.tools != nullptr;
        MOE_ASSIGN_OR_RETURN(wanted.stops,
                             stopsOf(options.stops, options.stop_count));
        ToolUse use;
        if (options.tools && !options.is_chat)
          return Status(StatusCode::Usage, "tools need is_chat");
        if (options.tools) {
          MOE_ASSIGN_OR_RETURN(use, toolsOf(wanted.speech, options.tools));
        }
        MOE_ASSIGN_OR_RETURN(
            ReplyStream stream,
            ReplyStream::create(tokenizer, {prompt, bytes}, std::move(wanted)));
        *reply = new moert_reply(handle, std::move(stream), std::move(use));
        return Status::ok();
      });
}

void moert_reply_destroy(moert_reply *reply) { delete reply; }

moert_status moert_reply_push(moert_reply *reply, int32_t token,
                              moert_event_callback callback, void *user) {
  if (!reply)
    return MOERT_USAGE;
  return withPlan(reply->engine, [&](Engine &engine) -> Status {
    if (!callback)
      return nullPointer();
    if (token < 0 || token >= engine.vocab())
      return Status(StatusCode::Usage, "token " + std::to_string(token) +
                                           " is outside the vocabulary of " +
                                           std::to_string(engine.vocab()));
    if (reply->pieces.hasEnded())
      return Status::ok();
    return send(*reply, reply->stream.push(token), callback, user);
  });
}

moert_status moert_reply_finish(moert_reply *reply, int32_t reason,
                                moert_event_callback callback, void *user) {
  if (!reply)
    return MOERT_USAGE;
  return guarded(reply->engine, [&]() -> Status {
    if (!callback)
      return nullPointer();
    if (reason < MOERT_STOP_LENGTH || reason > MOERT_STOP_CANCELLED)
      return Status(StatusCode::Usage, "reason is not a moert_stop_reason");
    if (reply->pieces.hasEnded())
      return Status::ok();
    return send(*reply, reply->stream.finish(StopReason(reason)), callback,
                user);
  });
}

int32_t moert_reply_takes_more(const moert_reply *reply) {
  return reply && reply->stream.takesMore() && !reply->pieces.hasEnded();
}
