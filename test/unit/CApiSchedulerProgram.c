/* Programs in C that use the scheduler of moert.h, constraints and calls of
 * tools. Each returns 0, or the line of the first step that failed, with its
 * message. */
#include "runtime/moert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

#define STEP(condition)                                                        \
  do {                                                                         \
    if (!(condition)) {                                                        \
      snprintf(message, size, "%s / %s / %s", #condition,                      \
               moert_last_error(engine), moert_thread_error());                \
      return __LINE__;                                                         \
    }                                                                          \
  } while (0)
#define FAILS_WITH(code, words, call)                                          \
  STEP((call) == (code) && strstr(moert_thread_error(), words))

enum { kTexts = 4, kLength = 12 };

/* What was received of a generation. */
typedef struct Received {
  char text[256], reasoning[64], calls[256];
  int32_t tokens[4096]; /* As many as any context here has. */
  size_t token_count, logprob_count, alternatives;
  int reason, stop, ended;
  moert_status status;
  char error[128];
  moert_generation_stats stats;
} Received;

static void receive(Received *to, const moert_event *event) {
  char piece[200];
  switch (event->kind) {
  case MOERT_EVENT_TEXT:
    strncat(to->text, event->text, event->bytes);
    to->logprob_count += event->logprob_count;
    for (size_t i = 0; i < event->logprob_count; ++i)
      to->alternatives += event->logprobs[i].top_count;
    break;
  case MOERT_EVENT_REASONING:
    strncat(to->reasoning, event->text, event->bytes);
    break;
  case MOERT_EVENT_CALL:
    snprintf(piece, sizeof(piece), "%d %s%s(", event->call, event->text,
             event->id && event->id[0] ? "" : " without id");
    strcat(to->calls, piece);
    break;
  case MOERT_EVENT_CALL_ARGUMENTS:
    strncat(to->calls, event->text, event->bytes);
    break;
  case MOERT_EVENT_CALL_END:
    strcat(to->calls, ")");
    break;
  case MOERT_EVENT_END:
    to->ended = 1;
    to->reason = event->reason;
    to->stop = event->stop;
    to->status = event->status;
    if (event->error)
      snprintf(to->error, sizeof(to->error), "%s", event->error);
    to->token_count = event->token_count;
    if (event->token_count)
      memcpy(to->tokens, event->tokens, event->token_count * sizeof(int32_t));
    if (event->stats)
      to->stats = *event->stats;
  }
}

/* Receives all events, and destroys the generation. */
static Received finish(moert_generation *generation) {
  Received result = {.stop = -2};
  const moert_event *event = NULL;
  while (!result.ended && generation &&
         moert_generation_next(generation, -1, &event) == MOERT_OK && event)
    receive(&result, event);
  /* Nothing follows the end. */
  if (moert_generation_next(generation, -1, &event) != MOERT_OK || event)
    result.ended = 0;
  moert_generation_destroy(generation);
  return result;
}

typedef struct Alone {
  char text[256];
} Alone;

static int collect(void *user, const char *text, size_t bytes) {
  strncat(((Alone *)user)->text, text, bytes);
  return 0;
}

static const int32_t kPrompts[kTexts][3] = {
    {0, 5, 2}, {0, 6, 7}, {0, 8, 2}, {0, 5, 9}};

static moert_generate_options greedy(int32_t max_tokens) {
  moert_generate_options options = {.size = sizeof(options)};
  moert_default_generate_options(&options);
  options.temperature = 0;
  options.max_tokens = max_tokens;
  options.ignore_eos = 1;
  return options;
}

int runTexts(const char *plan, char *message, size_t size);

/* Several texts at a time are those that each is alone. */
int runTexts(const char *plan, char *message, size_t size) {
  moert_engine *engine = moert_create();
  moert_scheduler *scheduler = NULL, *second = NULL;
  moert_sequence *sequence = NULL;
  moert_generation *generations[kTexts], *ready = NULL;
  Alone alone[kTexts] = {{{0}}};
  moert_generate_options options = greedy(kLength);
  STEP(moert_scheduler_create(engine, NULL, &scheduler) == MOERT_USAGE);
  STEP(strstr(moert_last_error(engine), "moert_open"));
  STEP(moert_open(engine, plan, NULL) == MOERT_OK);
  for (int i = 0; i < kTexts; ++i) {
    STEP(moert_sequence_create(engine, NULL, &sequence) == MOERT_OK);
    STEP(moert_generate(sequence, kPrompts[i], 3, &options, collect, &alone[i],
                        NULL) == MOERT_OK);
    moert_sequence_destroy(sequence);
  }

  moert_scheduler_options wanted = {0};
  STEP(moert_scheduler_create(engine, &wanted, &scheduler) == MOERT_USAGE);
  wanted.size = sizeof(wanted);
  wanted.queue = -1;
  STEP(moert_scheduler_create(engine, &wanted, &scheduler) == MOERT_USAGE);
  STEP(strstr(moert_last_error(engine), "queue"));
  wanted.queue = 0;
  wanted.store_folder = plan; /* a file */
  STEP(moert_scheduler_create(engine, &wanted, &scheduler) == MOERT_IO);
  STEP(moert_scheduler_create(engine, NULL, NULL) == MOERT_USAGE);
  STEP(moert_scheduler_create(engine, NULL, &scheduler) == MOERT_OK);
  STEP(moert_scheduler_create(engine, NULL, &second) == MOERT_USAGE);
  STEP(strstr(moert_last_error(engine), "scheduler already"));
  STEP(moert_open(engine, plan, NULL) == MOERT_USAGE);

  /* Each waited for. */
  for (int i = 0; i < kTexts; ++i)
    STEP(moert_submit(scheduler, kPrompts[i], 3, &options, NULL,
                      &generations[i]) == MOERT_OK);
  for (int i = 0; i < kTexts; ++i) {
    Received all = finish(generations[i]);
    STEP(all.ended && all.status == MOERT_OK && !all.error[0]);
    STEP(strcmp(all.text, alone[i].text) == 0 && all.text[0]);
    STEP(all.reason == MOERT_STOP_LENGTH && all.stop == -1);
    STEP(all.token_count == kLength && all.stats.generated_tokens == kLength);
    STEP(all.stats.prompt_tokens == 3 && all.logprob_count == 0);
  }

  /* One wait for all of them, with probabilities. */
  Received received[kTexts] = {0};
  for (int i = 0; i < kTexts; ++i) {
    moert_submit_options own = {.size = sizeof(own),
                                .client = i % 2 ? "a" : "b",
                                .priority = i,
                                .user = &received[i],
                                .logprobs = 3};
    STEP(moert_submit(scheduler, kPrompts[i], 3, &options, &own,
                      &generations[i]) == MOERT_OK);
  }
  for (int ended = 0; ended < kTexts;) {
    const moert_event *event = NULL;
    STEP(moert_scheduler_wait(scheduler, -1, &ready) == MOERT_OK && ready);
    STEP(moert_generation_next(ready, 0, &event) == MOERT_OK && event);
    Received *to = moert_generation_user(ready);
    receive(to, event);
    ended += to->ended;
  }
  STEP(moert_scheduler_wait(scheduler, 0, &ready) == MOERT_OK && !ready);
  moert_scheduler_wake(scheduler);
  STEP(moert_scheduler_wait(scheduler, -1, &ready) == MOERT_OK && !ready);
  for (int i = 0; i < kTexts; ++i) {
    STEP(strcmp(received[i].text, alone[i].text) == 0);
    STEP(received[i].logprob_count == kLength);
    STEP(received[i].alternatives == 2 * kLength);
    moert_generation_destroy(generations[i]);
  }

  /* Stop strings, and text that follows what is known. */
  char stop[2] = {alone[0].text[3], 0};
  const char *stops[] = {"~~", stop};
  options.stops = stops;
  options.stop_count = 2;
  STEP(moert_submit(scheduler, kPrompts[0], 3, &options, NULL,
                    &generations[0]) == MOERT_OK);
  Received all = finish(generations[0]);
  STEP(all.reason == MOERT_STOP_STRING && all.stop == 1);
  STEP(strlen(all.text) <= 3 && !strncmp(all.text, alone[0].text, 1));
  options.stop_count = 0;

  /* What can never run. */
  static int32_t many[300];
  moert_generation *none = NULL;
  const int32_t outside[1] = {40};
  FAILS_WITH(MOERT_USAGE, "context",
             moert_submit(scheduler, many, 300, NULL, NULL, &none));
  FAILS_WITH(MOERT_USAGE, "no tokens",
             moert_submit(scheduler, many, 0, NULL, NULL, &none));
  FAILS_WITH(MOERT_USAGE, "vocabulary",
             moert_submit(scheduler, outside, 1, NULL, NULL, &none));
  FAILS_WITH(MOERT_USAGE, "null",
             moert_submit(scheduler, NULL, 1, NULL, NULL, &none));
  FAILS_WITH(MOERT_USAGE, "null",
             moert_submit(scheduler, many, 1, NULL, NULL, NULL));
  moert_submit_options bad = {.size = sizeof(bad), .logprobs = -1};
  FAILS_WITH(MOERT_USAGE, "logprobs",
             moert_submit(scheduler, many, 1, NULL, &bad, &none));
  bad.logprobs = 100;
  FAILS_WITH(MOERT_USAGE, "99 alternatives",
             moert_submit(scheduler, many, 1, NULL, &bad, &none));
  bad.size = 0;
  FAILS_WITH(MOERT_USAGE, "size",
             moert_submit(scheduler, many, 1, NULL, &bad, &none));
  bad = (moert_submit_options){.size = sizeof(bad), .is_chat = 1};
  FAILS_WITH(MOERT_USAGE, "vocabulary",
             moert_submit(scheduler, outside, 1, NULL, &bad, &none));
  options.temperature = -1;
  FAILS_WITH(MOERT_USAGE, "temperature",
             moert_submit(scheduler, many, 1, &options, NULL, &none));
  options = greedy(1);
  options.bias_count = 1;
  FAILS_WITH(MOERT_USAGE, "null",
             moert_submit(scheduler, many, 1, &options, NULL, &none));
  STEP(!none && moert_thread_remedy()[0] == '\0');

  moert_scheduler_stats stats = {0};
  FAILS_WITH(MOERT_USAGE, "size", moert_scheduler_get_stats(scheduler, &stats));
  stats.size = sizeof(stats);
  int32_t all_ended = 0;
  STEP(moert_scheduler_drain(scheduler, -1, &all_ended) == MOERT_OK);
  STEP(all_ended);
  STEP(moert_scheduler_get_stats(scheduler, &stats) == MOERT_OK);
  STEP(moert_thread_error()[0] == '\0');
  STEP(stats.finished == 2 * kTexts + 1 && stats.cancelled == 0);
  STEP(stats.waiting == 0 && stats.running == 0 && stats.is_draining);
  STEP(stats.most_running == 4 && stats.refused > 0 && stats.steps > kLength);
  FAILS_WITH(MOERT_CANCELLED, "stop",
             moert_submit(scheduler, many, 1, NULL, NULL, &none));
  moert_scheduler_destroy(scheduler);
  STEP(moert_open(engine, plan, NULL) == MOERT_OK);
  moert_destroy(engine);
  return 0;
}

/* What happens while no step of the scheduler can run. */
typedef struct Held {
  moert_scheduler *scheduler;
  moert_generation *cancelled, *left;
  moert_generation *none;
  moert_status full;
  int32_t retry_after;
  int failed;
} Held;

static int cancelIt(void *generation) {
  moert_generation_cancel(generation);
  return 0;
}

/* Called inside moert_generate(): the scheduler waits for its end. */
static int whileHeld(void *user, const char *text, size_t bytes) {
  Held *held = user;
  moert_generate_options options = greedy(-1);
  thrd_t thread;
  (void)text, (void)bytes;
  held->failed += moert_submit(held->scheduler, kPrompts[0], 3, &options, NULL,
                               &held->cancelled) != MOERT_OK;
  held->failed += moert_submit(held->scheduler, kPrompts[1], 3, &options, NULL,
                               &held->left) != MOERT_OK;
  held->full = moert_submit(held->scheduler, kPrompts[2], 3, &options, NULL,
                            &held->none);
  held->retry_after = moert_scheduler_retry_after(held->scheduler);
  held->failed +=
      thrd_create(&thread, cancelIt, held->cancelled) != thrd_success ||
      thrd_join(thread, NULL) != thrd_success;
  return 1;
}

static float distance(const float *a, const float *b, size_t count) {
  float most = 0;
  for (size_t i = 0; i < count; ++i)
    most = fmaxf(most, fabsf(a[i] - b[i]));
  return most;
}

int runEmbeddings(const char *plan, char *message, size_t size);

/* Embeddings, beside texts that are generated. */
int runEmbeddings(const char *plan, char *message, size_t size) {
  moert_engine *engine = moert_create();
  moert_scheduler *scheduler = NULL;
  moert_generation *text = NULL, *embedding[3], *none = NULL;
  moert_generate_options options = greedy(kLength);
  float values[3][64] = {{0}};
  STEP(moert_hidden(engine) == 0);
  STEP(moert_open(engine, plan, NULL) == MOERT_OK);
  size_t hidden = (size_t)moert_hidden(engine);
  STEP(hidden > 0 && hidden <= 64);
  moert_scheduler_options wanted = {.size = sizeof(wanted), .speculation = 3};
  STEP(moert_scheduler_create(engine, &wanted, &scheduler) == MOERT_USAGE);
  wanted.speculation = MOERT_SPECULATE_OFF;
  STEP(moert_scheduler_create(engine, &wanted, &scheduler) == MOERT_OK);
  STEP(moert_submit(scheduler, kPrompts[0], 3, &options, NULL, &text) ==
       MOERT_OK);
  for (int pooling = 0; pooling < 3; ++pooling)
    STEP(moert_submit_embedding(scheduler, kPrompts[1], 3, pooling, NULL,
                                &embedding[pooling]) == MOERT_OK);
  for (int i = 0; i < 3; ++i) {
    const moert_event *event = NULL;
    STEP(moert_generation_next(embedding[i], -1, &event) == MOERT_OK && event);
    STEP(event->kind == MOERT_EVENT_END && event->status == MOERT_OK);
    STEP(event->embedding_count == hidden && event->token_count == 0);
    memcpy(values[i], event->embedding, hidden * sizeof(float));
    float squares = 0;
    for (size_t k = 0; k < hidden; ++k)
      squares += values[i][k] * values[i][k];
    STEP(squares > 0.999f && squares < 1.001f);
    moert_generation_destroy(embedding[i]);
  }
  /* What a prompt shares a step with decides how sums are rounded. */
  STEP(distance(values[0], values[1], hidden) < 1e-4f);
  STEP(distance(values[1], values[2], hidden) > 1e-2f);
  STEP(finish(text).token_count == kLength);
  FAILS_WITH(MOERT_USAGE, "moert_pooling",
             moert_submit_embedding(scheduler, kPrompts[0], 3, 3, NULL, &none));
  FAILS_WITH(MOERT_USAGE, "no tokens",
             moert_submit_embedding(scheduler, NULL, 0, 1, NULL, &none));
  FAILS_WITH(MOERT_USAGE, "null",
             moert_submit_embedding(scheduler, NULL, 1, 1, NULL, &none));
  moert_scheduler_destroy(scheduler);
  moert_destroy(engine);
  return 0;
}

int runCancelled(const char *plan, char *message, size_t size);

/* Cancellation by another thread, a full queue, sequences beside the scheduler,
 * and handles that outlive it. */
int runCancelled(const char *plan, char *message, size_t size) {
  moert_engine *engine = moert_create();
  moert_sequence *sequence = NULL, *fork = NULL;
  Held held = {0};
  moert_scheduler_options wanted = {.size = sizeof(wanted), .queue = 2};
  moert_generate_options options = greedy(4);
  STEP(moert_open(engine, plan, NULL) == MOERT_OK);
  STEP(moert_scheduler_create(engine, &wanted, &held.scheduler) == MOERT_OK);
  STEP(moert_sequence_create(engine, NULL, &sequence) == MOERT_OK);
  STEP(moert_generate(sequence, kPrompts[0], 3, &options, whileHeld, &held,
                      NULL) == MOERT_CANCELLED);
  STEP(held.failed == 0 && held.full == MOERT_DOES_NOT_FIT && !held.none);
  STEP(held.retry_after >= 1);
  Received all = finish(held.cancelled);
  STEP(all.ended && all.reason == MOERT_STOP_CANCELLED);
  STEP(all.status == MOERT_CANCELLED && strstr(all.error, "cancelled"));
  STEP(all.token_count == 0);
  moert_generation_cancel(held.left);
  moert_generation_destroy(held.left);

  /* Sequences work beside it. */
  STEP(moert_sequence_fork(sequence, &fork) == MOERT_OK);
  STEP(moert_evaluate(fork, kPrompts[1], 3, NULL) == MOERT_OK);
  moert_cache_info cache = {.size = sizeof(cache)};
  STEP(moert_get_cache_info(engine, &cache) == MOERT_OK);
  STEP(cache.sequences == 2);
  moert_request step = {fork, kPrompts[1], 3, NULL, 0, MOERT_OK};
  STEP(moert_step(engine, &step, 1) == MOERT_OK && step.taken == 3);
  moert_sequence_destroy(fork);
  moert_sequence_destroy(sequence);

  /* The scheduler ends while a text is generated, and another waits for
   * nobody. */
  moert_generation *running = NULL, *forgotten = NULL;
  options = greedy(-1);
  STEP(moert_submit(held.scheduler, kPrompts[2], 3, &options, NULL, &running) ==
       MOERT_OK);
  STEP(moert_submit(held.scheduler, kPrompts[3], 3, &options, NULL,
                    &forgotten) == MOERT_OK);
  moert_generation_destroy(forgotten);
  moert_scheduler_destroy(held.scheduler);
  moert_generation_cancel(running);
  all = finish(running);
  /* On a busy machine the text has come to an end of its own by then. */
  STEP(all.ended && (all.reason == MOERT_STOP_CANCELLED ||
                     all.reason == MOERT_STOP_END ||
                     all.reason == MOERT_STOP_CONTEXT));
  moert_destroy(engine);
  return 0;
}

int runConstrained(const char *plan, char *message, size_t size);

/* Constraints hold texts of generations and of samplers. */
int runConstrained(const char *plan, char *message, size_t size) {
  typedef struct Case {
    int32_t kind;
    const char *text, *first, *second; /* what a text may be */
  } Case;
  const Case cases[] = {
      {MOERT_JSON_SCHEMA, "{\"enum\": [\"the\", \"a\"]}", "\"the\"", "\"a\""},
      {MOERT_GBNF, "root ::= \"the\" \" \" [ab]", "the a", "the b"},
      {MOERT_REGEX, "th(e|a){2}e?", "thee", "thaa"},
      {MOERT_CHOICES, "[\"xyz\", \"zyx\"]", "xyz", "zyx"}};
  moert_engine *engine = moert_create();
  moert_scheduler *scheduler = NULL;
  moert_generation *generation = NULL;
  moert_sequence *sequence = NULL;
  moert_sampler *sampler = NULL;
  moert_constraint *constraint = NULL;
  float logits[40];
  moert_generate_options options = greedy(20);
  options.ignore_eos = 0;

  /* Those that are wrong. */
  const struct {
    int32_t kind;
    const char *text, *words;
  } bad[] = {{MOERT_JSON_SCHEMA, "{\"not\": {}}", "not"},
             {MOERT_JSON_SCHEMA, "{", "schema"},
             {MOERT_JSON_SCHEMA, "true", "schema must be an object"},
             {MOERT_JSON_SCHEMA, "null", "schema is null"},
             {MOERT_GBNF, "top ::= \"a\"", "root"},
             {MOERT_REGEX, "(a", "regex"},
             {MOERT_REGEX, "\xFF", "regex"},
             {MOERT_CHOICES, "[]", "choices"},
             {MOERT_CHOICES, "[1]", "choices"},
             {MOERT_CHOICES, "\"the\"", "choices"},
             {4, "a", "moert_constraint_kind"},
             {-1, "a", "moert_constraint_kind"}};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
    snprintf(message, size, "%s", bad[i].text);
    if (moert_constraint_create(engine, bad[i].kind, bad[i].text,
                                strlen(bad[i].text),
                                &constraint) != MOERT_USAGE ||
        !strstr(moert_last_error(engine), bad[i].words))
      return (int)i + 1;
  }
  STEP(moert_constraint_create(engine, MOERT_REGEX, NULL, 1, &constraint) ==
       MOERT_USAGE);
  STEP(moert_constraint_create(engine, MOERT_REGEX, "a", 1, NULL) ==
       MOERT_USAGE);

  STEP(moert_open(engine, plan, NULL) == MOERT_OK);
  STEP(moert_scheduler_create(engine, NULL, &scheduler) == MOERT_OK);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    const Case *each = &cases[i];
    STEP(moert_constraint_create(engine, each->kind, each->text,
                                 strlen(each->text), &constraint) == MOERT_OK);
    moert_submit_options own = {.size = sizeof(own), .constraint = constraint};
    STEP(moert_submit(scheduler, kPrompts[0], 3, &options, &own, &generation) ==
         MOERT_OK);
    /* The generation keeps what it needs of it. */
    if (i == 0) {
      moert_constraint_destroy(constraint);
      STEP(moert_constraint_create(engine, each->kind, each->text,
                                   strlen(each->text),
                                   &constraint) == MOERT_OK);
    }
    Received all = finish(generation);
    STEP(all.status == MOERT_OK && all.reason == MOERT_STOP_END);
    STEP(!strcmp(all.text, each->first) || !strcmp(all.text, each->second));

    /* A program that chooses tokens gets the same text. */
    moert_sampler_options most = {.size = sizeof(most)};
    moert_default_sampler_options(&most);
    most.temperature = 0;
    STEP(moert_sampler_create(engine, &most, &sampler) == MOERT_OK);
    STEP(moert_sequence_create(engine, NULL, &sequence) == MOERT_OK);
    STEP(moert_sampler_accept(sampler, kPrompts[0], 3) == MOERT_OK);
    STEP(moert_sampler_constrain(sampler, constraint, NULL, 1) == MOERT_USAGE);
    STEP(moert_sampler_constrain(sampler, constraint, NULL, 0) == MOERT_OK);
    const int32_t never = 20; /* "o" */
    STEP(moert_sampler_accept(sampler, &never, 1) == MOERT_USAGE);
    STEP(moert_evaluate(sequence, kPrompts[0], 3, logits) == MOERT_OK);
    int32_t ids[20];
    size_t count = 0, bytes = 0;
    char text[64] = {0};
    while (count < 20 && !moert_sampler_has_ended(sampler)) {
      int32_t token = -1;
      STEP(moert_sampler_choose(sampler, logits, 40, &token) == MOERT_OK);
      STEP(moert_sampler_accept(sampler, &token, 1) == MOERT_OK);
      if (moert_is_end(engine, token))
        break;
      ids[count++] = token;
      STEP(moert_evaluate(sequence, &token, 1, logits) == MOERT_OK);
    }
    STEP(moert_detokenize(engine, ids, count, 0, text, sizeof(text) - 1,
                          &bytes) == MOERT_OK);
    STEP(strcmp(text, all.text) == 0);
    if (moert_sampler_has_ended(sampler))
      STEP(moert_sampler_choose(sampler, logits, 40, ids) != MOERT_OK ||
           moert_is_end(engine, ids[0]));
    STEP(moert_sampler_constrain(sampler, NULL, NULL, 0) == MOERT_OK);
    STEP(!moert_sampler_has_ended(sampler));
    STEP(moert_sampler_accept(sampler, &never, 1) == MOERT_OK);
    STEP(moert_sampler_constrain(sampler, constraint, "the", 3) == MOERT_OK);
    moert_sequence_destroy(sequence);
    moert_sampler_destroy(sampler);
    moert_constraint_destroy(constraint);
  }
  moert_scheduler_destroy(scheduler);
  moert_destroy(engine);
  return 0;
}

static const char *const kTools =
    "[{\"type\": \"function\", \"function\": {\"name\": \"look\","
    " \"parameters\": {\"type\": \"object\", \"properties\": {\"a\": "
    "{\"enum\": [\"the\"]}}, \"required\": [\"a\"],"
    " \"additionalProperties\": false}}}]";

/* Removes white space, which the grammar leaves to the model. */
static void squeeze(char *text) {
  char *to = text;
  for (; *text; ++text)
    if (!strchr(" \n", *text))
      *to++ = *text;
  *to = '\0';
}

static void hear(void *user, const moert_event *event) { receive(user, event); }

int runTools(const char *plan, char *message, size_t size);

/* Conversations with tools, by a scheduler and token by token. */
int runTools(const char *plan, char *message, size_t size) {
  moert_engine *engine = moert_create();
  moert_scheduler *scheduler = NULL;
  moert_generation *generation = NULL;
  moert_constraint *constraint = NULL;
  char request[1024];
  STEP(moert_open(engine, plan, NULL) == MOERT_OK);
  STEP(moert_scheduler_create(engine, NULL, &scheduler) == MOERT_OK);
  snprintf(request, sizeof(request),
           "{\"messages\": [{\"role\": \"user\", \"content\": \"the\"}], "
           "\"tools\": %s, \"tool_choice\": \"required\", "
           "\"parallel_tool_calls\": false, \"temperature\": 0, "
           "\"max_tokens\": 60, "
           /* Blanks and line ends, which the grammar leaves to the model. */
           "\"logit_bias\": {\"2\": -100, \"39\": -100}}",
           kTools);
  STEP(moert_submit_chat(scheduler, request, strlen(request), NULL,
                         &generation) == MOERT_OK);
  Received all = finish(generation);
  STEP(all.status == MOERT_OK && all.text[0] == '\0');
  squeeze(all.calls);
  STEP(strcmp(all.calls, "0look({\"a\":\"the\"})") == 0);

  /* A format of the answer, in the request or compiled before. */
  const char *answer = "{\"messages\": [{\"role\": \"user\", \"content\": "
                       "\"a\"}], \"guided_choice\": [\"xyz\"]}";
  STEP(moert_submit_chat(scheduler, answer, strlen(answer), NULL,
                         &generation) == MOERT_OK);
  all = finish(generation);
  STEP(strcmp(all.text, "xyz") == 0 && all.stats.prompt_tokens > 0);
  STEP(moert_constraint_create(engine, MOERT_REGEX, "zyx", 3, &constraint) ==
       MOERT_OK);
  moert_submit_options own = {.size = sizeof(own), .constraint = constraint};
  FAILS_WITH(
      MOERT_USAGE, "constraint",
      moert_submit_chat(scheduler, answer, strlen(answer), &own, &generation));
  const char *plain =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}";
  STEP(moert_submit_chat(scheduler, plain, strlen(plain), &own, &generation) ==
       MOERT_OK);
  moert_constraint_destroy(constraint);
  all = finish(generation);
  STEP(strcmp(all.text, "zyx") == 0);

  /* Requests that are wrong. */
  const struct {
    const char *text, *words;
  } bad[] = {
      {"", "request"},
      {"[]", "an object"},
      {"{}", "messages"},
      {"{\"messages\": []}", "messages"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
       "\"temperature\": \"hot\"}",
       "temperature must be a number"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"n\": 2}",
       "n must be 1"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
       "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": "
       "{\"schema\": {\"not\": {}}}}}",
       "not"}};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i)
    FAILS_WITH(MOERT_USAGE, bad[i].words,
               moert_submit_chat(scheduler, bad[i].text, strlen(bad[i].text),
                                 NULL, &generation));
  FAILS_WITH(MOERT_USAGE, "null",
             moert_submit_chat(scheduler, NULL, 1, NULL, &generation));
  FAILS_WITH(MOERT_USAGE, "null",
             moert_submit_chat(scheduler, plain, strlen(plain), NULL, NULL));

  /* A reply that this program generates: 32 "<tool_call>", 33 its end, 34 {,
   * 35 }, 36 ", 37 :, 38 comma, 39 line end; 6 is "a". */
  moert_reply *reply = NULL;
  moert_reply_options wanted = {
      .size = sizeof(wanted), .max_tokens = -1, .tools = kTools};
  STEP(moert_reply_create(engine, NULL, 0, &wanted, &reply) == MOERT_USAGE);
  wanted.is_chat = 1;
  wanted.tools = "{}";
  STEP(moert_reply_create(engine, NULL, 0, &wanted, &reply) == MOERT_USAGE);
  wanted.tools = "[{\"type\": \"function\"}]";
  STEP(moert_reply_create(engine, NULL, 0, &wanted, &reply) == MOERT_USAGE);
  STEP(strstr(moert_last_error(engine), "function"));
  wanted.tools = kTools;
  STEP(moert_reply_create(engine, NULL, 0, &wanted, &reply) == MOERT_OK);
  int32_t ids[64];
  size_t count = 0;
  const char *call = "{\"name\":\"look\",\"arguments\":{\"a\":\"the\"}}";
  STEP(moert_tokenize(engine, call, strlen(call), 0, ids, 64, &count) ==
       MOERT_OK);
  Received heard = {0};
  STEP(moert_reply_push(reply, 5, hear, &heard) == MOERT_OK);
  STEP(moert_reply_push(reply, 32, hear, &heard) == MOERT_OK);
  for (size_t i = 0; i < count; ++i)
    STEP(moert_reply_push(reply, ids[i], hear, &heard) == MOERT_OK);
  STEP(moert_reply_push(reply, 33, hear, &heard) == MOERT_OK);
  STEP(moert_reply_push(reply, 1, hear, &heard) == MOERT_OK);
  STEP(heard.ended && heard.reason == MOERT_STOP_END);
  STEP(strcmp(heard.text, "the") == 0);
  STEP(strcmp(heard.calls, "0 look({\"a\":\"the\"})") == 0);
  moert_reply_destroy(reply);

  STEP(moert_reply_create(engine, NULL, 0, &wanted, &reply) == MOERT_OK);
  STEP(moert_reply_push(reply, 32, hear, &heard) == MOERT_OK);
  STEP(moert_reply_push(reply, 34, hear, &heard) == MOERT_OK);
  STEP(moert_reply_push(reply, 38, hear, &heard) == MOERT_UNSUPPORTED);
  STEP(moert_last_error(engine)[0] && !moert_reply_takes_more(reply));
  STEP(moert_reply_push(reply, 38, hear, &heard) == MOERT_OK);
  moert_reply_destroy(reply);
  moert_scheduler_destroy(scheduler);
  moert_destroy(engine);
  return 0;
}

int runWithoutTemplate(const char *plan, char *message, size_t size);

/* A plan whose model knows no conversations. */
int runWithoutTemplate(const char *plan, char *message, size_t size) {
  moert_engine *engine = moert_create();
  moert_scheduler *scheduler = NULL;
  moert_generation *generation = NULL;
  const char *request =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}";
  STEP(moert_open(engine, plan, NULL) == MOERT_OK);
  STEP(moert_scheduler_create(engine, NULL, &scheduler) == MOERT_OK);
  FAILS_WITH(MOERT_UNSUPPORTED, "chat template",
             moert_submit_chat(scheduler, request, strlen(request), NULL,
                               &generation));
  moert_scheduler_destroy(scheduler);
  moert_scheduler_options options = {.size = sizeof(options),
                                     .chat_template = "{% for"};
  STEP(moert_scheduler_create(engine, &options, &scheduler) ==
       MOERT_INVALID_FILE);
  options.chat_template = "{{ messages[0].content }}";
  STEP(moert_scheduler_create(engine, &options, &scheduler) == MOERT_OK);
  STEP(moert_submit_chat(scheduler, request, strlen(request), NULL,
                         &generation) == MOERT_OK);
  moert_generation_destroy(generation);
  moert_reply *reply = NULL;
  moert_reply_options wanted = {
      .size = sizeof(wanted), .max_tokens = -1, .is_chat = 1, .tools = kTools};
  STEP(moert_reply_create(engine, NULL, 0, &wanted, &reply) ==
       MOERT_UNSUPPORTED);
  moert_scheduler_destroy(scheduler);
  moert_destroy(engine);
  return 0;
}

int runSchedulerNulls(void);

/* Null handles are refused, and nothing else happens. */
int runSchedulerNulls(void) {
  moert_generation *generation = NULL;
  const moert_event *event = NULL;
  int failed = 0;
#define REFUSED(call) failed += (call) != MOERT_USAGE
  REFUSED(moert_constraint_create(NULL, 0, "{}", 2, NULL));
  REFUSED(moert_sampler_constrain(NULL, NULL, NULL, 0));
  REFUSED(moert_scheduler_create(NULL, NULL, NULL));
  REFUSED(moert_submit(NULL, NULL, 0, NULL, NULL, &generation));
  REFUSED(moert_submit_embedding(NULL, NULL, 0, 0, NULL, &generation));
  REFUSED(moert_submit_chat(NULL, "{}", 2, NULL, &generation));
  REFUSED(moert_generation_next(NULL, 0, &event));
  REFUSED(moert_scheduler_wait(NULL, 0, &generation));
  REFUSED(moert_scheduler_drain(NULL, 0, NULL));
  REFUSED(moert_scheduler_get_stats(NULL, NULL));
  failed += moert_sampler_has_ended(NULL) + moert_scheduler_retry_after(NULL) +
            (moert_generation_user(NULL) != NULL);
  moert_generation_cancel(NULL);
  moert_scheduler_wake(NULL);
  moert_constraint_destroy(NULL);
  moert_generation_destroy(NULL);
  moert_scheduler_destroy(NULL);
  return failed;
}
