// Options of AddressSanitizer for a library that is built without it.

/// LLVM's allocators mark free memory as inaccessible, but only in code that is
/// built with the sanitizer. libMLIR is built without it, and hands out memory
/// that our code has marked as free.
extern "C" const char *__asan_default_options();
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}
