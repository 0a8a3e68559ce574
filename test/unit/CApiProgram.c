/* A program in C that uses moert.h, to prove that the header is valid C. */
#include "runtime/moert.h"

#include <math.h>
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
