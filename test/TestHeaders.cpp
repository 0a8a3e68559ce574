// What GoogleTest's headers, precompiled, are compiled for. A program, as tests are:
// code of programs and of libraries is compiled with other flags.
