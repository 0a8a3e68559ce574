/* A program that applications are like: it uses nothing but the installed
 * header and library. It prints the text that the most likely tokens make after
 * a prompt. */
#include <moert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show(void *user, const moert_event *event) {
  (void)user;
  if (event->kind == MOERT_EVENT_TEXT)
    fwrite(event->text, 1, event->bytes, stdout);
}

static int fail(const moert_engine *engine, const char *what) {
  fprintf(stderr, "%s: %s\n%s\n", what, moert_last_error(engine),
          moert_last_remedy(engine));
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 4 || moert_abi_version() != MOERT_ABI_VERSION)
    return 2;
  const char *prompt = argv[2];
  moert_engine *engine = moert_create();
  if (!engine || moert_open(engine, argv[1], NULL) != MOERT_OK)
    return fail(engine, "open");

  moert_model_info info = {.size = sizeof(info)};
  moert_device_memory memory = {.size = sizeof(memory)};
  moert_cache_info cache = {.size = sizeof(cache)};
  if (moert_get_model_info(engine, &info) != MOERT_OK ||
      moert_get_device_memory(engine, 0, &memory) != MOERT_OK ||
      moert_get_cache_info(engine, &cache) != MOERT_OK)
    return fail(engine, "facts");
  fprintf(stderr, "%s: %.1f M parameters, %.1f MiB on %s, %d pages of %d\n",
          info.architecture, (double)info.parameters / 1e6,
          (double)memory.weights / (1 << 20), memory.name, cache.pages,
          cache.page_tokens);

  size_t count = 0;
  (void)moert_tokenize(engine, prompt, strlen(prompt), 1, NULL, 0, &count);
  int32_t *ids = malloc(count * sizeof(int32_t));
  float *logits = malloc((size_t)moert_vocab(engine) * sizeof(float));
  if (!ids || !logits ||
      moert_tokenize(engine, prompt, strlen(prompt), 1, ids, count, &count) !=
          MOERT_OK)
    return fail(engine, "tokenize");

  moert_sequence *sequence = NULL;
  moert_sampler *sampler = NULL;
  moert_reply *reply = NULL;
  moert_sampler_options greedy = {.size = sizeof(greedy)};
  moert_default_sampler_options(&greedy);
  greedy.temperature = 0;
  moert_reply_options options = {.size = sizeof(options),
                                 .max_tokens = atoi(argv[3])};
  if (moert_sequence_create(engine, NULL, &sequence) != MOERT_OK ||
      moert_sampler_create(engine, &greedy, &sampler) != MOERT_OK ||
      moert_reply_create(engine, NULL, 0, &options, &reply) != MOERT_OK ||
      moert_sampler_accept(sampler, ids, count) != MOERT_OK ||
      moert_evaluate(sequence, ids, count, logits) != MOERT_OK)
    return fail(engine, "prompt");
  while (moert_reply_takes_more(reply)) {
    int32_t token = 0;
    if (moert_sampler_choose(sampler, logits, (size_t)moert_vocab(engine),
                             &token) != MOERT_OK ||
        moert_sampler_accept(sampler, &token, 1) != MOERT_OK ||
        moert_reply_push(reply, token, show, NULL) != MOERT_OK)
      return fail(engine, "token");
    if (moert_reply_takes_more(reply) &&
        moert_evaluate(sequence, &token, 1, logits) != MOERT_OK)
      return fail(engine, "step");
  }
  printf("\n");
  moert_reply_destroy(reply);
  moert_sampler_destroy(sampler);
  moert_sequence_destroy(sequence);
  moert_destroy(engine);
  free(logits);
  free(ids);
  return 0;
}
