// Options of AddressSanitizer for a library that is built without it.

/// LLVM's allocators mark memory that is free, in code that is built with the
/// sanitizer only. libMLIR hands out, unmarked as it is built, what code of
/// ours had marked as free before.
extern "C" const char *__asan_default_options();
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}
