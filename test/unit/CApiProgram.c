/* What a C program does with moert.h; compiled as C so that the header is. */
#include "runtime/moert.h"

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
int runProgram(const char *plan, char *message, size_t size);

#define STEP(number, condition)                                                \
  do {                                                                         \
    if (!(condition)) {                                                        \
      snprintf(message, size, "%s", moert_last_error(session));                \
      moert_destroy(session);                                                  \
      return number;                                                           \
    }                                                                          \
  } while (0)

int runProgram(const char *plan, char *message, size_t size) {
  moert_session *session = moert_create();
  if (!session)
    return -1;
  int32_t ids[16];
  size_t count = 0;

  /* Nothing is open yet. */
  STEP(1, moert_vocab(session) == 0);
  STEP(2, moert_rewind(session, 0) == MOERT_USAGE);
  STEP(3, strstr(moert_last_error(session), "moert_open") != NULL);
  STEP(4, moert_open(session, NULL, NULL) == MOERT_USAGE);
  STEP(5, moert_open(session, "/nowhere/plan.fb", NULL) == MOERT_IO);
  STEP(6, strstr(moert_last_error(session), "/nowhere/plan.fb") != NULL);

  moert_open_options options = {1, NULL, "/nowhere/plan.weights", 0};
  STEP(28, moert_open(session, plan, &options) == MOERT_IO);
  options.weights_path = NULL;
  STEP(7, moert_open(session, plan, &options) == MOERT_OK);
  STEP(8, moert_last_error(session)[0] == '\0');
  STEP(9, moert_vocab(session) == 40 && moert_context(session) == 24);

  STEP(10,
       moert_tokenize(session, "the a.", 6, 1, ids, 16, &count) == MOERT_OK);
  STEP(11, count == 5 && ids[0] == 0 && ids[1] == 5);
  STEP(12,
       moert_tokenize(session, "the a.", 6, 0, ids, 2, &count) == MOERT_USAGE);
  STEP(13, count == 4);
  STEP(14, moert_tokenize(session, NULL, 3, 0, ids, 2, &count) == MOERT_USAGE);

  float logits[40];
  int32_t tokens[3] = {0, 5, 2};
  STEP(15, moert_evaluate(session, tokens, 3, logits) == MOERT_OK);
  STEP(16, moert_position(session) == 3);
  int32_t outside[1] = {40};
  STEP(17, moert_evaluate(session, outside, 1, NULL) == MOERT_USAGE);
  STEP(18, moert_rewind(session, 0) == MOERT_OK);

  moert_generate_options generate;
  moert_default_generate_options(&generate);
  generate.max_tokens = 6;
  generate.temperature = 0;
  generate.ignore_eos = 1;
  Collected all = {{0}, 0, 0, 0};
  moert_generate_stats stats;
  STEP(19, moert_generate(session, tokens, 3, &generate, collect, &all,
                          &stats) == MOERT_OK);
  STEP(20, stats.prompt_tokens == 3 && stats.generated_tokens == 6);
  STEP(21, moert_position(session) == 8);

  /* The same again is the same; the callback may end it. */
  Collected part = {{0}, 0, 0, 1};
  STEP(22, moert_rewind(session, 0) == MOERT_OK);
  STEP(23, moert_generate(session, tokens, 3, &generate, collect, &part,
                          NULL) == MOERT_CANCELLED);
  STEP(24, part.length > 0 && part.length < all.length &&
               memcmp(part.text, all.text, part.length) == 0);

  /* More than the context holds. */
  int32_t many[25] = {0};
  STEP(25, moert_rewind(session, 0) == MOERT_OK);
  STEP(26, moert_evaluate(session, many, 25, NULL) == MOERT_DOES_NOT_FIT);
  generate.temperature = -1;
  STEP(27, moert_generate(session, tokens, 3, &generate, collect, &part,
                          NULL) == MOERT_USAGE);
  moert_destroy(session);
  moert_destroy(NULL);
  return 0;
}

int runDamaged(const char *plan, char *message, size_t size);

/* Returns 0 with the message of a plan whose weights hold a NaN, or the number
 * of the step that went on. */
int runDamaged(const char *plan, char *message, size_t size) {
  moert_session *session = moert_create();
  if (!session)
    return -1;
  float logits[40];
  int32_t tokens[3] = {0, 5, 2};
  Collected text = {{0}, 0, 0, 0};
  STEP(1, moert_open(session, plan, NULL) == MOERT_OK);
  STEP(2, moert_evaluate(session, tokens, 3, logits) == MOERT_INVALID_FILE);
  STEP(3, moert_evaluate(session, tokens, 1, NULL) == MOERT_INVALID_FILE);
  STEP(4, moert_position(session) == 0);
  STEP(5, moert_generate(session, tokens, 3, NULL, collect, &text, NULL) ==
              MOERT_INVALID_FILE);
  STEP(6, text.length == 0);
  snprintf(message, size, "%s", moert_last_error(session));
  moert_destroy(session);
  return 0;
}
