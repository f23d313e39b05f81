// A stand-in for NVRTC: what it makes of CUDA C++ is a shared object that the emulated driver runs on the host.
//
// KPE_NVRTC_VERSION says what version this is: 129 for 12.9. With KPE_NVRTC, the path of the real one, every text is compiled
// by that as well, for each of KPE_ARCHITECTURES: what it refuses is refused here. What was compiled is kept in the
// directory KPE_KEPT, if there is one, for other processes that compile the same.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <map>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

namespace {
struct Program {
  std::string source, log, code;
};

std::string directory() {
  Dl_info info;
  dladdr((void *)&directory, &info);
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Functions that the driver calls: kernels with what they are given behind a pointer, and what it must know of them.
std::string entries(const std::string &source) {
  std::string text = R"(
extern "C" char __start_kpe_shared[] __attribute__((weak)), __stop_kpe_shared[] __attribute__((weak));
extern "C" __global__ char *kpe_shares(int at_end) { return at_end ? __stop_kpe_shared : __start_kpe_shared; }
)";
  std::regex kernel("__global__ void (?:__launch_bounds__\\([0-9]+\\) )?(\\w+)\\(");
  for (std::sregex_iterator at(source.begin(), source.end(), kernel), end; at != end; ++at) {
    const std::string name = (*at)[1];
    const size_t begin = at->position(), close = source.find("\n}\n", begin);
    const std::string body = source.substr(begin, close - begin);
    bool waits = false;
    for (const char *what : {"__syncthreads", "kp_block_", "kp_meet", "kp_ask("}) waits |= body.find(what) != std::string::npos;
    text += "extern \"C\" __global__ const int kpe_waits_" + name + " = " + (waits ? "1" : "0") + ";\n";
    text += "extern \"C\" __global__ void kpe_" + name + "(const void *p) { kpe_call(" + name + ", p); }\n";
    text += "extern \"C\" __global__ unsigned kpe_sizes_" + name + "(unsigned *into) { return kpe_sizes(" + name + ", into); }\n";
  }
  return text;
}

// What the real NVRTC says against a text; nothing if it takes it.
std::string objection(const std::string &source) {
  const char *path = getenv("KPE_NVRTC"), *architectures = getenv("KPE_ARCHITECTURES");
  if (!path || !architectures) return "";
  static void *real = nullptr;
  if (!real) {
    const std::string directory = std::string(path).substr(0, std::string(path).rfind('/'));
    for (const char *name : {"/libnvrtc-builtins.so.12.9", "/libnvrtc-builtins.so.13.2", "/libnvrtc-builtins.so.13.4"})
      dlopen((directory + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
    real = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!real) return dlerror();
  }
  typedef void *Handle;
  const auto create = (int (*)(Handle *, const char *, const char *, int, const void *, const void *))dlsym(real, "nvrtcCreateProgram");
  const auto compile = (int (*)(Handle, int, const char *const *))dlsym(real, "nvrtcCompileProgram");
  const auto log_size = (int (*)(Handle, size_t *))dlsym(real, "nvrtcGetProgramLogSize");
  const auto get_log = (int (*)(Handle, char *))dlsym(real, "nvrtcGetProgramLog");
  const auto destroy = (int (*)(Handle *))dlsym(real, "nvrtcDestroyProgram");
  std::stringstream list(architectures);
  for (std::string architecture; std::getline(list, architecture, ',');) {
    Handle program;
    if (create(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr)) return "no program";
    const std::string option = "--gpu-architecture=" + architecture;
    const char *options[] = {option.c_str(), "--minimal", "--fmad=false"};
    std::string log;
    if (compile(program, 3, options)) {
      size_t size = 0;
      log_size(program, &size);
      log.resize(size);
      get_log(program, &log[0]);
      log = architecture + ": " + log;
    }
    destroy(&program);
    if (!log.empty()) return log;
  }
  return "";
}

int version() {
  const char *version = getenv("KPE_NVRTC_VERSION");
  return version ? atoi(version) : 120;
}

// From 12.9 on it has a cache of its own.
bool has_cache() { return version() >= 129; }

bool is_option(const char *option) {
  static const char *known[] = {"--gpu-architecture=sm_", "--minimal", "--fmad=", "--use_fast_math"};
  for (const char *name : known)
    if (strncmp(option, name, strlen(name)) == 0) return true;
  return has_cache() && strcmp(option, "--no-cache") == 0;
}

// Code by its text. Options do not count: in the real one, one of them does not.
std::map<std::string, std::string> cached;

// Code that another process compiled of the same text in the same way, if tests keep it.
struct Kept {
  std::string path, text;
  Kept(const std::string &text) : text(text) {
    const char *directory = getenv("KPE_KEPT");
    if (directory) path = std::string(directory) + "/" + std::to_string(std::hash<std::string>()(text));
  }
  bool find(std::string &code) const {
    if (path.empty() || read(path + ".cpp") != text) return false;
    code = read(path + ".so");
    return !code.empty();
  }
  void keep(const std::string &code) const {
    if (path.empty()) return;
    for (const auto &[end, bytes] : {std::pair{".so", &code}, {".cpp", &text}}) {
      const std::string staged = path + end + "." + std::to_string(getpid());
      std::ofstream(staged, std::ios::binary) << *bytes;
      rename(staged.c_str(), (path + end).c_str());
    }
  }
};
}  // namespace

extern "C" {
int nvrtcVersion(int *major, int *minor) {
  *major = version() / 10;
  *minor = version() % 10;
  return 0;
}

int nvrtcCreateProgram(Program **program, const char *source, const char *, int, const void *, const void *) {
  *program = new Program{source, "", ""};
  return 0;
}

int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  for (int at = 0; at < count; ++at)
    if (!is_option(options[at])) {
      program->log = std::string("unknown option ") + options[at];
      return 5;
    }
  bool is_contracted = false, may_look = has_cache();
  for (int at = 0; at < count; ++at) {
    if (strcmp(options[at], "--fmad=true") == 0) is_contracted = true;
    if (strcmp(options[at], "--no-cache") == 0) may_look = false;
  }
  if (may_look && cached.count(program->source)) return program->code = cached[program->source], 0;
  const std::string source = "#include \"" + directory() + "/device.h\"\n#line 1 \"kernel.cu\"\n" + program->source + entries(program->source);
  const std::string flags = is_contracted ? "-ffp-contract=fast -mfma -fexpensive-optimizations" : "-ffp-contract=off";
  const char *architectures = getenv("KPE_ARCHITECTURES");
  const Kept kept("// " + flags + " " + (architectures ? architectures : "") + "\n" + source);
  if (kept.find(program->code)) return 0;
  program->log = objection(program->source);
  if (!program->log.empty()) return 6;
  char base[] = "/tmp/kpe-XXXXXX";
  if (!mkdtemp(base)) return 1;
  const std::string text = std::string(base) + "/kernel.cpp", object = std::string(base) + "/kernel.so",
                    log = std::string(base) + "/log";
  std::ofstream(text) << source;
  const std::string command = "g++ -x c++ -std=c++17 -O1 -shared -fPIC -fvisibility=hidden -fwrapv -fno-strict-aliasing "
                              "-fsanitize-coverage=trace-pc -w " +
                              flags + " -o " + object + " " + text + " 2> " + log;
  const int status = system(command.c_str());
  program->log = read(log);
  program->code = read(object);
  if (may_look) cached[program->source] = program->code;
  for (const std::string &path : {text, object, log}) unlink(path.c_str());
  rmdir(base);
  if (status == 0) kept.keep(program->code);
  return status == 0 ? 0 : 6;
}

int nvrtcGetProgramLogSize(Program *program, size_t *size) { return *size = program->log.size() + 1, 0; }
int nvrtcGetProgramLog(Program *program, char *log) { return strcpy(log, program->log.c_str()), 0; }
int nvrtcGetCUBINSize(Program *program, size_t *size) { return *size = program->code.size(), 0; }
int nvrtcGetCUBIN(Program *program, char *code) {
  return memcpy(code, program->code.data(), program->code.size()), 0;
}
int nvrtcGetPTXSize(Program *, size_t *size) { return *size = 1, 0; }
int nvrtcGetPTX(Program *, char *text) { return *text = 0, 0; }
int nvrtcDestroyProgram(Program **program) {
  delete *program;
  *program = nullptr;
  return 0;
}
}
