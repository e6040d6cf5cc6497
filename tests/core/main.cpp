// core_tests NAME [COUNT]: runs one test; COUNT scales the random ones. Without arguments: lists the names.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "check.h"
#include "random_program.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    for (const check::Test& test : check::tests()) std::puts(test.name);
    return 0;
  }
  if (argc > 2) random_programs = std::atoi(argv[2]);
  for (const check::Test& test : check::tests()) {
    if (std::strcmp(test.name, argv[1]) != 0) continue;
    try {
      test.run();
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", test.name, error.what());
      return 1;
    }
  }
  std::fprintf(stderr, "no test is named %s\n", argv[1]);
  return 2;
}
