// A test is a function that throws. Each runs in a process of its own: `core_tests NAME`.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace check {

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

template <typename A, typename B>
void equal(const A& a, const B& b, const char* text, const char* file, int line) {
  if (a == b) return;
  std::ostringstream out;
  out << text << ": " << a << " and " << b;
  fail(file, line, out.str());
}

// The text of the Error that run throws.
template <typename Error, typename Run>
std::string thrown(const Run& run, const char* text, const char* file, int line) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    fail(file, line, std::string(text) + " threw another error: " + error.what());
  }
  fail(file, line, std::string(text) + " did not throw");
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace check

#define TEST(name)                                                   \
  static void name();                                                \
  static const check::Registration registration_##name(#name, name); \
  static void name()

#define CHECK(condition) \
  if (!(condition)) check::fail(__FILE__, __LINE__, #condition)
#define CHECK_EQUAL(a, b) check::equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_CONTAINS(text, part)                                       \
  if (const std::string text_ = (text); !check::contains(text_, (part))) \
  check::fail(__FILE__, __LINE__, "'" + text_ + "' does not contain '" + (part) + "'")
#define THROWN(Error, expression) check::thrown<Error>([&] { (void)(expression); }, #expression, __FILE__, __LINE__)
