// A program that precompiles the headers of GoogleTest. Tests are programs too,
// and programs are compiled with other flags than libraries.
