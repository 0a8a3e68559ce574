/* A program in C that uses moert.h, to prove that the header is valid C. */
#include "runtime/moert.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct Collected {
  char text[4096];
  size_t length;
  int calls, stopAfter;
} Collected;

static int collect(void *user, const char *text, size_t bytes) {
  Collected *collected = (Collected *)user;
  if (collected->length + bytes >= sizeof(collected->text))
    return 1;
  memcpy(collected->text + collected->length, text, bytes);
  collected->length += bytes;
  return ++collected->calls == collected->stopAfter;
}

/* Returns 0, or the number of the step that failed, with its message. */
int runProgram(const char *plan, const char *saved, char *message, size_t size);

#define STEP(number, condition)                                                \
  do {                                                                         \
    if (!(condition)) {                                                        \
      snprintf(message, size, "%s", moert_last_error(engine));                 \
      moert_sequence_destroy(text);                                            \
      moert_destroy(engine);                                                   \
      return number;                                                           \
    }                                                                          \
  } while (0)

int runProgram(const char *plan, const char *saved, char *message,
               size_t size) {
  moert_engine *engine = moert_create();
  moert_sequence *text = NULL;
  if (!engine)
    return -1;
  int32_t ids[16];
  size_t count = 0;

  /* Nothing is open yet. */
  STEP(1, moert_vocab(engine) == 0);
  STEP(2, moert_sequence_create(engine, NULL, &text) == MOERT_USAGE);
  STEP(3, strstr(moert_last_error(engine), "moert_open") != NULL);
  STEP(4, moert_open(engine, NULL, NULL) == MOERT_USAGE);
  STEP(5, moert_open(engine, "/nowhere/plan.fb", NULL) == MOERT_IO);
  STEP(6, strstr(moert_last_error(engine), "/nowhere/plan.fb") != NULL);

  moert_open_options options = {0, 1, NULL, "/nowhere/plan.weights", 0, 0, 0};
  STEP(29, moert_open(engine, plan, &options) == MOERT_USAGE);
  options.size = sizeof(options);
  STEP(28, moert_open(engine, plan, &options) == MOERT_IO);
  options.weights_path = NULL;
  STEP(7, moert_open(engine, plan, &options) == MOERT_OK);
  STEP(8, moert_last_error(engine)[0] == '\0');
  STEP(9, moert_vocab(engine) == 40 && moert_context(engine) == 24);

  STEP(30, moert_sequence_create(engine, NULL, &text) == MOERT_OK);
  STEP(31, moert_open(engine, plan, &options) == MOERT_USAGE);

  STEP(10, moert_tokenize(engine, "the a.", 6, 1, ids, 16, &count) == MOERT_OK);
  STEP(11, count == 5 && ids[0] == 0 && ids[1] == 5);
  STEP(12,
       moert_tokenize(engine, "the a.", 6, 0, ids, 2, &count) == MOERT_USAGE);
  STEP(13, count == 4);
  STEP(14, moert_tokenize(engine, NULL, 3, 0, ids, 2, &count) == MOERT_USAGE);

  float logits[40];
  int32_t tokens[3] = {0, 5, 2};
  STEP(15, moert_evaluate(text, tokens, 3, logits) == MOERT_OK);
  STEP(16, moert_sequence_position(text) == 3);
  int32_t outside[1] = {40};
  STEP(17, moert_evaluate(text, outside, 1, NULL) == MOERT_USAGE);
  STEP(18, moert_sequence_rewind(text, 0) == MOERT_OK);

  moert_generate_options generate;
  generate.size = sizeof(generate);
  moert_default_generate_options(&generate);
  generate.max_tokens = 6;
  generate.temperature = 0;
  generate.ignore_eos = 1;
  Collected all = {{0}, 0, 0, 0};
  moert_generate_stats stats;
  STEP(19, moert_generate(text, tokens, 3, &generate, collect, &all, &stats) ==
               MOERT_OK);
  STEP(20, stats.prompt_tokens == 3 && stats.generated_tokens == 6);
  STEP(21, moert_sequence_position(text) == 8);

  /* The same request gives the same text; the callback may end it. */
  Collected part = {{0}, 0, 0, 1};
  STEP(22, moert_sequence_rewind(text, 0) == MOERT_OK);
  STEP(23, moert_generate(text, tokens, 3, &generate, collect, &part, NULL) ==
               MOERT_CANCELLED);
  STEP(24, part.length > 0 && part.length < all.length &&
               memcmp(part.text, all.text, part.length) == 0);

  /* More tokens than the context holds. */
  int32_t many[25] = {0};
  STEP(25, moert_sequence_rewind(text, 0) == MOERT_OK);
  STEP(26, moert_evaluate(text, many, 25, NULL) == MOERT_DOES_NOT_FIT);
  generate.temperature = -1;
  STEP(27, moert_generate(text, tokens, 3, &generate, collect, &part, NULL) ==
               MOERT_USAGE);

  /* Two sequences in a step, a fork, and a file. */
  moert_sequence *other = NULL, *third = NULL;
  STEP(32, moert_sequence_rewind(text, 0) == MOERT_OK);
  STEP(33, moert_evaluate(text, tokens, 2, NULL) == MOERT_OK);
  STEP(34, moert_sequence_fork(text, &other) == MOERT_OK);
  STEP(35, moert_sequence_position(other) == 2);
  float rows[2][40];
  moert_request requests[2] = {{text, tokens + 2, 1, rows[0], 0, MOERT_OK},
                               {other, outside, 1, rows[1], 7, MOERT_OK}};
  STEP(36, moert_step(engine, requests, 2) == MOERT_OK);
  STEP(37, requests[0].taken == 1 && requests[0].status == MOERT_OK);
  STEP(38, requests[1].taken == 0 && requests[1].status == MOERT_USAGE);
  STEP(39, strstr(moert_last_error(engine), "vocabulary") != NULL);
  for (int i = 0; i < 40; ++i)
    STEP(40, fabsf(rows[0][i] - logits[i]) < 1e-4f);
  requests[0].ids = requests[1].ids = tokens;
  STEP(41, moert_step(engine, requests, 2) == MOERT_OK);
  STEP(42, requests[1].taken == 1 && memcmp(rows[0], rows[1], 160) != 0);
  STEP(43, moert_sequence_save(text, saved) == MOERT_OK);
  STEP(44, moert_sequence_restore(engine, saved, NULL, &third) == MOERT_OK);
  STEP(45, moert_sequence_position(third) == 4);
  STEP(46, moert_sequence_restore(engine, plan, NULL, &third) ==
               MOERT_INVALID_FILE);
  moert_sequence_destroy(third);
  moert_sequence_destroy(other);
  moert_sequence_destroy(text);
  moert_sequence_destroy(NULL);
  moert_destroy(engine);
  moert_destroy(NULL);
  return 0;
}

int runDamaged(const char *plan, char *message, size_t size);

/* Returns 0 with the message that a plan with NaN weights gives, or the number
 * of the step that did not fail. */
int runDamaged(const char *plan, char *message, size_t size) {
  moert_engine *engine = moert_create();
  moert_sequence *text = NULL;
  if (!engine)
    return -1;
  float logits[40];
  int32_t tokens[3] = {0, 5, 2};
  Collected written = {{0}, 0, 0, 0};
  STEP(1, moert_open(engine, plan, NULL) == MOERT_OK);
  STEP(7, moert_sequence_create(engine, NULL, &text) == MOERT_OK);
  STEP(2, moert_evaluate(text, tokens, 3, logits) == MOERT_INVALID_FILE);
  STEP(3, moert_evaluate(text, tokens, 1, NULL) == MOERT_INVALID_FILE);
  STEP(4, moert_sequence_position(text) == 0);
  STEP(5, moert_generate(text, tokens, 3, NULL, collect, &written, NULL) ==
              MOERT_INVALID_FILE);
  STEP(6, written.length == 0);
  snprintf(message, size, "%s", moert_last_error(engine));
  moert_sequence_destroy(text);
  moert_destroy(engine);
  return 0;
}

int runFacts(const char *plan, char *message, size_t size);

/* What is known of a plan, and text, without sequences. */
int runFacts(const char *plan, char *message, size_t size) {
  moert_sequence *text = NULL;
  moert_engine *engine = moert_create();
  if (!engine)
    return -1;
  moert_model_info info = {0};
  moert_device_memory memory = {0};
  moert_cache_info cache = {0};
  char buffer[64];
  int32_t ids[16];
  size_t count = 0;

  /* Nothing is open. */
  info.size = sizeof(info);
  STEP(1, moert_get_model_info(engine, &info) == MOERT_USAGE);
  STEP(2, moert_devices(engine) == 0 && !moert_is_end(engine, 1));
  STEP(3, moert_detokenize(engine, ids, 0, 0, NULL, 0, &count) == MOERT_USAGE);
  STEP(4, moert_open(engine, plan, NULL) == MOERT_OK);
  STEP(5, moert_last_remedy(engine)[0] == '\0');

  /* Facts, as far as there is room for them. */
  STEP(6, moert_get_model_info(engine, &info) == MOERT_OK);
  STEP(7, info.size == sizeof(info) && info.tokens == 40 && info.bos == 0);
  STEP(8, info.eos == 1 && info.has_tokenizer && info.has_chat_template);
  STEP(9, info.threads >= 1 && info.weight_bytes > 0 && info.name[0] != '\0');
  moert_model_info older = {0};
  older.size = offsetof(moert_model_info, layers);
  older.layers = -7;
  STEP(10, moert_get_model_info(engine, &older) == MOERT_OK);
  STEP(11, older.layers == -7 && older.weight_bytes == info.weight_bytes);
  older.size = 0;
  STEP(12, moert_get_model_info(engine, &older) == MOERT_USAGE);
  STEP(13, moert_get_model_info(engine, NULL) == MOERT_USAGE);
  STEP(14, moert_is_end(engine, 1) && !moert_is_end(engine, 5));
  STEP(15, !moert_is_end(engine, -1) && !moert_is_end(engine, 1 << 30));

  memory.size = sizeof(memory);
  STEP(16, moert_devices(engine) == 1);
  STEP(17, moert_get_device_memory(engine, 0, &memory) == MOERT_OK);
  STEP(18, memory.kind == MOERT_CPU && strcmp(memory.name, "cpu0") == 0);
  STEP(19, memory.kv > 0 && memory.activations > 0 && memory.pinned == 0);
  STEP(20, moert_get_device_memory(engine, 1, &memory) == MOERT_USAGE);
  STEP(21, moert_get_device_memory(engine, -1, &memory) == MOERT_USAGE);

  /* The cache's pages are taken and given back. */
  cache.size = sizeof(cache);
  STEP(22, moert_get_cache_info(engine, &cache) == MOERT_OK);
  STEP(23, cache.pages == 4 && cache.free_pages == 4 && !cache.sequences);
  STEP(24, cache.page_tokens == 64);
  int32_t tokens[3] = {0, 5, 2};
  STEP(25, moert_sequence_create(engine, NULL, &text) == MOERT_OK);
  STEP(26, moert_evaluate(text, tokens, 3, NULL) == MOERT_OK);
  STEP(27, moert_get_cache_info(engine, &cache) == MOERT_OK);
  STEP(28, cache.free_pages == 3 && cache.sequences == 1);
  moert_sequence_destroy(text);
  text = NULL;
  STEP(29, moert_get_cache_info(engine, &cache) == MOERT_OK);
  STEP(30, cache.free_pages == 4 && cache.sequences == 0);

  /* Text of tokens: what there is room for, control tokens, bad ones. */
  STEP(31,
       moert_tokenize(engine, "the a.", 6, 1, NULL, 0, &count) == MOERT_USAGE);
  STEP(32, count == 5);
  STEP(33, moert_tokenize(engine, "the a.", 6, 1, ids, 16, &count) == MOERT_OK);
  STEP(34,
       moert_detokenize(engine, ids, count, 0, buffer, 64, &count) == MOERT_OK);
  STEP(35, count == 6 && memcmp(buffer, "the a.", 6) == 0);
  STEP(36, moert_detokenize(engine, ids, 5, MOERT_CONTROL_NAMES, buffer, 64,
                            &count) == MOERT_OK);
  STEP(37, count == 9 && memcmp(buffer, "<s>the a.", 9) == 0);
  STEP(38,
       moert_detokenize(engine, ids, 5, 0, buffer, 5, &count) == MOERT_USAGE);
  STEP(39, count == 6);
  ids[1] = 40;
  STEP(40,
       moert_detokenize(engine, ids, 5, 0, buffer, 64, &count) == MOERT_USAGE);
  ids[1] = -1;
  STEP(41,
       moert_detokenize(engine, ids, 5, 0, buffer, 64, &count) == MOERT_USAGE);
  STEP(42,
       moert_detokenize(engine, NULL, 1, 0, buffer, 64, &count) == MOERT_USAGE);
  STEP(43, moert_detokenize(engine, NULL, 0, 0, NULL, 0, &count) == MOERT_OK);
  STEP(44, count == 0);
  STEP(45, moert_detokenize(engine, NULL, 0, 0, NULL, 0, NULL) == MOERT_USAGE);

  /* Conversations. */
  moert_message messages[2] = {{"user", "the"}, {"user", "a"}};
  moert_chat_options chat = {0};
  STEP(46, moert_chat_text(engine, messages, 2, NULL, buffer, 64, &count) ==
               MOERT_OK);
  STEP(47, count == 8 && memcmp(buffer, "thea</s>", 8) == 0);
  STEP(48, moert_chat_tokens(engine, messages, 2, NULL, ids, 16, &count) ==
               MOERT_OK);
  STEP(49, count == 3 && ids[0] == 5 && ids[2] == 1);
  STEP(50, moert_chat_text(engine, messages, 2, &chat, buffer, 64, &count) ==
               MOERT_USAGE); /* no size */
  chat.size = sizeof(chat);
  chat.chat_template = "{{ messages | length }}{{ x }}";
  chat.variables = "{\"x\": \"b\"}";
  STEP(51, moert_chat_text(engine, messages, 2, &chat, buffer, 64, &count) ==
               MOERT_OK);
  STEP(52, count == 2 && memcmp(buffer, "2b", 2) == 0);
  chat.variables = "{\"messages\": [{\"role\": \"user\"}]}";
  STEP(53,
       moert_chat_text(engine, NULL, 0, &chat, buffer, 64, &count) == MOERT_OK);
  STEP(69, count == 1 && buffer[0] == '1');
  STEP(54, moert_chat_text(engine, messages, 2, &chat, buffer, 64, &count) ==
               MOERT_USAGE); /* twice */
  static char deep[200000];  /* {"a": [[[[... */
  memset(deep, '[', sizeof(deep) - 1);
  memcpy(deep, "{\"a\":", 5);
  const char *const bad[] = {"", "[1]", "{", "{\"messages\": 3}", "\xFF", deep};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
    chat.variables = bad[i];
    STEP(55, moert_chat_text(engine, NULL, 0, &chat, buffer, 64, &count) ==
                 MOERT_USAGE);
  }
  chat.variables = NULL;
  chat.chat_template = "{% for";
  STEP(56, moert_chat_text(engine, messages, 2, &chat, buffer, 64, &count) ==
               MOERT_INVALID_FILE);
  chat.chat_template = NULL;
  chat.thinking = 3;
  STEP(57, moert_chat_text(engine, messages, 2, &chat, buffer, 64, &count) ==
               MOERT_USAGE);
  messages[1].content = NULL;
  STEP(58, moert_chat_text(engine, messages, 2, NULL, buffer, 64, &count) ==
               MOERT_USAGE);
  STEP(59, moert_chat_text(engine, NULL, 2, NULL, buffer, 64, &count) ==
               MOERT_USAGE);
  messages[1].role = messages[1].content = "\xFF"; /* U+FFFD, without token */
  STEP(60, moert_chat_text(engine, messages, 2, NULL, buffer, 64, &count) ==
               MOERT_OK);

  /* The command that mends a failure. */
  moert_open_options options = {sizeof(options), 0, NULL, NULL, 0, 0, 100};
  STEP(61, moert_open(engine, plan, &options) == MOERT_DOES_NOT_FIT);
  STEP(62, strstr(moert_last_error(engine), "recompile with a larger context"));
  STEP(63, strstr(moert_last_remedy(engine), "moec compile MODEL --ctx 100"));
  options.context = -1;
  STEP(64, moert_open(engine, plan, &options) == MOERT_USAGE);
  options.context = 0;
  options.rung = -1;
  STEP(65, moert_open(engine, plan, &options) == MOERT_USAGE);
  options.rung = 0;
  options.threads = -1;
  STEP(66, moert_open(engine, plan, &options) == MOERT_USAGE);
  options.threads = 1 << 30;
  STEP(67, moert_open(engine, plan, &options) == MOERT_USAGE);
  STEP(68, moert_last_remedy(engine)[0] == '\0' && moert_vocab(engine) == 0);
  moert_destroy(engine);
  return 0;
}

/* The events of a reply, as "text|reasoning|reason". */
typedef struct Heard {
  char text[64], reasoning[64];
  int reason, events;
} Heard;

static void hear(void *user, const moert_event *event) {
  Heard *heard = (Heard *)user;
  ++heard->events;
  if (event->kind == MOERT_EVENT_END)
    heard->reason = event->reason;
  else
    strncat(event->kind == MOERT_EVENT_TEXT ? heard->text : heard->reasoning,
            event->text, event->bytes);
}

int runReplies(const char *plan, char *message, size_t size);

/* Samplers and replies. */
int runReplies(const char *plan, char *message, size_t size) {
  moert_sequence *text = NULL;
  moert_sampler *sampler = NULL, *again = NULL;
  moert_reply *reply = NULL;
  moert_engine *engine = moert_create();
  if (!engine)
    return -1;
  float logits[40];
  int32_t token = -1, recent[4], other = -1;
  uint64_t random = 0;
  size_t count = 0;
  for (int i = 0; i < 40; ++i)
    logits[i] = (float)(i % 7);

  /* A sampler needs no plan. */
  moert_sampler_options options = {0};
  moert_default_sampler_options(&options); /* no size: nothing happens */
  STEP(1, moert_sampler_create(engine, &options, &sampler) == MOERT_USAGE);
  options.size = sizeof(options);
  moert_default_sampler_options(&options);
  moert_default_sampler_options(NULL);
  STEP(2, options.top_k == 40 && options.temperature > 0);
  options.top_p = 2;
  STEP(3, moert_sampler_create(engine, &options, &sampler) == MOERT_USAGE);
  options.top_p = 0.95f;
  options.temperature = NAN;
  STEP(4, moert_sampler_create(engine, &options, &sampler) == MOERT_USAGE);
  options.temperature = 1;
  options.repeat_last_n = 3;
  STEP(5, moert_sampler_create(engine, &options, NULL) == MOERT_USAGE);
  STEP(6, moert_sampler_create(engine, &options, &sampler) == MOERT_OK);
  STEP(7, moert_sampler_create(engine, &options, &again) == MOERT_OK);
  const int32_t said[5] = {1, 2, 3, 4, -5};
  STEP(8, moert_sampler_accept(sampler, said, 5) == MOERT_OK);
  STEP(9, moert_sampler_accept(sampler, NULL, 1) == MOERT_USAGE);
  STEP(10, moert_sampler_choose(sampler, logits, 40, &token) == MOERT_OK);
  STEP(11, token >= 0 && token < 40);
  STEP(12, moert_sampler_choose(sampler, NULL, 40, &token) == MOERT_USAGE);
  STEP(13, moert_sampler_choose(sampler, logits, 0, &token) != MOERT_OK);

  /* Another one goes on as this one does. */
  STEP(14,
       moert_sampler_save(sampler, &random, recent, 2, &count) == MOERT_USAGE);
  STEP(15, count == 3);
  STEP(16, moert_sampler_save(sampler, &random, recent, 4, &count) == MOERT_OK);
  STEP(17, count == 3 && recent[0] == 3 && recent[1] == 4 && recent[2] == -5);
  STEP(18, moert_sampler_load(again, random, recent, count) == MOERT_OK);
  for (int i = 0; i < 20; ++i) {
    STEP(19, moert_sampler_choose(sampler, logits, 40, &token) == MOERT_OK);
    STEP(20, moert_sampler_choose(again, logits, 40, &other) == MOERT_OK);
    STEP(21, token == other);
    STEP(22, moert_sampler_accept(sampler, &token, 1) == MOERT_OK);
    STEP(23, moert_sampler_accept(again, &token, 1) == MOERT_OK);
  }
  STEP(24, moert_sampler_load(again, 0, NULL, 1) == MOERT_USAGE);
  logits[3] = NAN;
  STEP(25, moert_sampler_choose(sampler, logits, 40, &token) == MOERT_INTERNAL);

  /* A reply needs the plan's tokens: "th", "e" and a stop string. */
  moert_reply_options wanted = {0};
  STEP(26, moert_reply_create(engine, NULL, 0, NULL, &reply) == MOERT_USAGE);
  STEP(27, moert_open(engine, plan, NULL) == MOERT_OK);
  STEP(28, moert_reply_create(engine, NULL, 0, &wanted, &reply) == MOERT_USAGE);
  wanted.size = sizeof(wanted);
  wanted.max_tokens = -1;
  const char *stops[2] = {"ex", NULL};
  wanted.stops = stops;
  wanted.stop_count = 2;
  STEP(29, moert_reply_create(engine, NULL, 0, &wanted, &reply) == MOERT_USAGE);
  stops[1] = "";
  STEP(30, moert_reply_create(engine, NULL, 0, &wanted, &reply) == MOERT_USAGE);
  wanted.stop_count = 1;
  STEP(31, moert_reply_create(engine, NULL, 3, &wanted, &reply) == MOERT_USAGE);
  STEP(32, moert_reply_create(engine, NULL, 0, &wanted, &reply) == MOERT_OK);
  Heard heard = {{0}, {0}, -1, 0};
  STEP(33, moert_reply_push(reply, 5, hear, &heard) == MOERT_OK);
  STEP(34, strcmp(heard.text, "th") == 0 && moert_reply_takes_more(reply));
  STEP(35, moert_reply_push(reply, 40, hear, &heard) == MOERT_USAGE);
  STEP(36, moert_reply_push(reply, -1, hear, &heard) == MOERT_USAGE);
  STEP(37, moert_reply_push(reply, 5, NULL, NULL) == MOERT_USAGE);
  STEP(38, moert_open(engine, plan, NULL) == MOERT_USAGE); /* a reply is left */
  STEP(39, moert_reply_push(reply, 6 + 'x' - 'a', hear, &heard) == MOERT_OK);
  STEP(40, strcmp(heard.text, "th") == 0 && heard.reason == MOERT_STOP_STRING);
  STEP(41, !moert_reply_takes_more(reply));
  heard.events = 0;
  STEP(42, moert_reply_push(reply, 5, hear, &heard) == MOERT_OK);
  STEP(43,
       moert_reply_finish(reply, MOERT_STOP_CONTEXT, hear, &heard) == MOERT_OK);
  STEP(44, heard.events == 0);
  moert_reply_destroy(reply);
  reply = NULL;

  /* The end that a caller says. */
  STEP(45, moert_reply_create(engine, "a", 1, NULL, &reply) == MOERT_OK);
  STEP(46, moert_reply_finish(reply, 9, hear, &heard) == MOERT_USAGE);
  STEP(47, moert_reply_finish(reply, MOERT_STOP_CANCELLED, hear, &heard) ==
               MOERT_OK);
  STEP(48, heard.events == 1 && heard.reason == MOERT_STOP_CANCELLED);
  moert_reply_destroy(reply);
  moert_sampler_destroy(sampler);
  moert_sampler_destroy(again);
  moert_destroy(engine);
  return 0;
}

int runNulls(void);

/* Null handles are refused, and nothing else happens. */
int runNulls(void) {
  int32_t ids[1] = {0};
  float logits[1] = {0};
  char text[1];
  size_t count = 0;
  uint64_t random = 0;
  moert_event_callback listener = hear;
  int failed = 0;
#define REFUSED(call) failed += (call) != MOERT_USAGE
  REFUSED(moert_open(NULL, "x", NULL));
  REFUSED(moert_get_model_info(NULL, NULL));
  REFUSED(moert_get_device_memory(NULL, 0, NULL));
  REFUSED(moert_get_cache_info(NULL, NULL));
  REFUSED(moert_tokenize(NULL, "a", 1, 0, ids, 1, &count));
  REFUSED(moert_detokenize(NULL, ids, 1, 0, text, 1, &count));
  REFUSED(moert_chat_text(NULL, NULL, 0, NULL, text, 1, &count));
  REFUSED(moert_chat_tokens(NULL, NULL, 0, NULL, ids, 1, &count));
  REFUSED(moert_sequence_create(NULL, NULL, NULL));
  REFUSED(moert_sequence_rewind(NULL, 0));
  REFUSED(moert_sequence_fork(NULL, NULL));
  REFUSED(moert_sequence_save(NULL, "x"));
  REFUSED(moert_sequence_restore(NULL, "x", NULL, NULL));
  REFUSED(moert_evaluate(NULL, ids, 1, logits));
  REFUSED(moert_step(NULL, NULL, 0));
  REFUSED(moert_sampler_create(NULL, NULL, NULL));
  REFUSED(moert_sampler_accept(NULL, ids, 1));
  REFUSED(moert_sampler_choose(NULL, logits, 1, ids));
  REFUSED(moert_sampler_save(NULL, &random, ids, 1, &count));
  REFUSED(moert_sampler_load(NULL, 0, ids, 1));
  REFUSED(moert_reply_create(NULL, NULL, 0, NULL, NULL));
  REFUSED(moert_reply_push(NULL, 0, listener, NULL));
  REFUSED(moert_reply_finish(NULL, 0, listener, NULL));
  REFUSED(moert_generate(NULL, ids, 1, NULL, collect, NULL, NULL));
  moert_default_generate_options(NULL);
  moert_default_sampler_options(NULL);
  moert_cancel(NULL);
  failed += moert_vocab(NULL) + moert_context(NULL) + moert_batch(NULL) +
            moert_ubatch(NULL) + moert_devices(NULL) + moert_is_end(NULL, 0) +
            moert_sequence_position(NULL) + moert_reply_takes_more(NULL);
  failed +=
      moert_last_error(NULL)[0] != '\0' || moert_last_remedy(NULL)[0] != '\0' ||
      moert_abi_version() != MOERT_ABI_VERSION || moert_version()[0] == '\0';
  moert_sequence_destroy(NULL);
  moert_sampler_destroy(NULL);
  moert_reply_destroy(NULL);
  moert_destroy(NULL);
  return failed;
}
