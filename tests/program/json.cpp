// What the scripts need of JSON. Reads stdin, which must be exactly one object.
//   program_json has KEY...   fails and names the first key that is absent
//   program_json get KEY      prints the value; texts without quotes
// A key with dots goes into objects: "io.backend"; numbers index lists: "devices.0.name".
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

const Json *find(const Json &whole, const std::string &key) {
  std::string path = "/" + key;
  for (char &c : path) c = c == '.' ? '/' : c;
  const Json::json_pointer pointer(path);
  return whole.contains(pointer) ? &whole.at(pointer) : nullptr;
}

int run(int count, char **arguments) {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  const Json whole = Json::parse(text);
  if (!whole.is_object()) throw std::runtime_error("not an object");
  const std::string verb = count > 1 ? arguments[1] : "";
  for (int i = 2; i < count; ++i) {
    const Json *value = find(whole, arguments[i]);
    if (value == nullptr) throw std::runtime_error(std::string("no key ") + arguments[i]);
    if (verb != "get") continue;
    std::puts(value->is_string() ? value->get<std::string>().c_str() : value->dump().c_str());
  }
  return 0;
}

}  // namespace

int main(int count, char **arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception &error) {
    std::printf("JSON: %s\n", error.what());
    return 1;
  }
}
