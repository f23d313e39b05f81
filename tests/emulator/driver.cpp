// A stand-in for the CUDA driver: devices whose threads run on the host, one after the other.
//
// It is as unkind as the real one may be. What is put on a stream runs late: when somebody waits, and of several streams
// the last one that was made goes first, unless it waits for another. Memory of a device can only be touched while
// something runs on it; it is filled with rubbish when it is allocated and again when it is freed, and room is bounded.
//
// KPE_DEVICES says how many devices there are, KPE_CAPABILITY what they are (90 for 9.0), KPE_MEMORY how many bytes each
// has, KPE_VERSION what version this is. With KPE_NOTHING, nothing is launched: what is left is what a launch costs without
// the driver.

#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "device.h"

typedef unsigned int Result;
typedef uint64_t Pointer;

namespace {
enum : Result { OK = 0, INVALID = 1, NO_ROOM = 2, NO_CONTEXT = 201, NO_DEVICE = 100, WRONG_DEVICE = 101, WRONG_CODE = 200,
                NOT_FOUND = 500, NOT_READY = 600, ILLEGAL = 700, TOO_LARGE = 720, WRONG_HANDLE = 400 };

long setting(const char *name, long usual) {
  const char *text = getenv(name);
  return text ? atol(text) : usual;
}

std::recursive_mutex lock;
pid_t owner = 0;

// -- Memory ---------------------------------------------------------------------------------------

constexpr size_t LARGE = size_t(8) << 20, PAGE = 4096, RESERVED = size_t(16) << 30;
char *arena = nullptr;
size_t arena_end = 0;
std::multimap<size_t, size_t> holes;  // Bytes, where.
struct Block {
  size_t bytes, room;
  int device;
};
std::map<size_t, Block> blocks;  // By where they begin.
long used_bytes[64];

struct Touch {  // While one of these lives, memory of devices can be touched.
  static int depth;
  Touch() {
    if (depth++ == 0 && arena_end) mprotect(arena, arena_end, PROT_READ | PROT_WRITE);
  }
  ~Touch() {
    if (--depth == 0 && arena_end) mprotect(arena, arena_end, PROT_NONE);
  }
};
int Touch::depth = 0;

// -- Streams --------------------------------------------------------------------------------------

struct Work {
  std::function<Result()> run;
  std::shared_ptr<struct EventState> after;  // Runs once this has happened.
};
struct EventState {
  bool done = true;
  kpe_u64 at = 0;  // How many steps devices had taken until then.
};
struct Event {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};
struct Stream {
  int device;
  bool is_blocking;
  std::deque<Work> queue;
};
struct Device {
  Result lost = OK;
  std::vector<std::unique_ptr<Stream>> streams;  // The first is the default one.
};
struct Context {
  int device;
};
std::vector<Device> devices;
std::vector<Context> contexts;
thread_local Context *current = nullptr;

Device &here() { return devices[current->device]; }
Stream *of(void *handle) { return (uint64_t)handle <= 2 ? here().streams[0].get() : (Stream *)handle; }

// What runs on devices has a stack of its own: it can be put aside while somebody only asks whether it is done.
struct Running {
  ucontext_t host, own;
  std::function<Result()> run;
  Result result;
  Stream *stream = nullptr;  // Whose work it is; none if nothing runs.
  bool is_done, may_pause;
  std::chrono::steady_clock::time_point until;
} running_work;
constexpr size_t WORK_STACK = size_t(1) << 20;

void run_work() {
  running_work.result = running_work.run();
  running_work.is_done = true;
  swapcontext(&running_work.own, &running_work.host);
}

void put_handlers(bool are_ours);

// Where work can be put aside: memory of devices cannot be touched meanwhile.
void pause_here() {
  if (!running_work.may_pause || std::chrono::steady_clock::now() < running_work.until) return;
  const int depth = Touch::depth;
  Touch::depth = 0;
  if (depth && arena_end) mprotect(arena, arena_end, PROT_NONE);
  if (depth) put_handlers(false);
  swapcontext(&running_work.own, &running_work.host);
  if (depth) put_handlers(true);
  if (depth && arena_end) mprotect(arena, arena_end, PROT_READ | PROT_WRITE);
  Touch::depth = depth;
}

// Runs the first work of a stream that can run, or what was put aside; whether there was any.
bool step(Device &device, Stream *stream, bool may_pause = false) {
  Running &running = running_work;
  if (!running.stream) {
    if (stream->queue.empty()) return false;
    Work &work = stream->queue.front();
    if (work.after && !work.after->done) return false;
    if (device.lost != OK || !work.run) {
      stream->queue.pop_front();
      return true;
    }
    static char *stack = (char *)mmap(nullptr, WORK_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    running.run = work.run;
    running.stream = stream;
    running.is_done = false;
    getcontext(&running.own);
    running.own.uc_stack.ss_sp = stack;
    running.own.uc_stack.ss_size = WORK_STACK;
    running.own.uc_link = nullptr;
    makecontext(&running.own, run_work, 0);
  }
  running.may_pause = may_pause;
  running.until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  swapcontext(&running.host, &running.own);
  if (running.is_done) {
    Stream *own = running.stream;
    running.stream = nullptr;
    running.run = nullptr;
    own->queue.pop_front();
    if (running.result != OK) devices[own->device].lost = running.result;
  }
  return true;
}

// Whether nothing is done for now. Says in a file beside that somebody has asked.
bool is_stuck() {
  const char *stuck = getenv("KPE_STUCK");
  if (!stuck || access(stuck, F_OK) != 0) return false;
  if (FILE *asked = fopen((std::string(stuck) + ".asked").c_str(), "w")) fclose(asked);
  return true;
}

void wait_until_unstuck() {
  while (is_stuck()) usleep(1000);
}

// Runs a piece of work of any stream, the youngest first; whether there was any that can run.
bool advance() {
  for (auto &device : devices)
    for (size_t at = device.streams.size(); at-- > 0;)
      if (step(device, device.streams[at].get(), true)) return true;
  return false;
}

// Runs everything that a stream waits for, and the stream until it is empty.
Result drain(int number, Stream *wanted) {
  Device &device = devices[number];
  for (;;) {
    bool is_done = !wanted || wanted->queue.empty(), moved = false;
    if (!wanted)
      for (auto &stream : device.streams) is_done &= stream->queue.empty();
    if (is_done) return device.lost;
    for (size_t at = device.streams.size(); at-- > 0 && !moved;) moved = step(device, device.streams[at].get());
    for (auto &other : devices)  // What is waited for may be on another device.
      for (size_t at = other.streams.size(); at-- > 0 && !moved;) moved = step(other, other.streams[at].get());
    if (!moved) {
      fprintf(stderr, "emulated driver: streams wait for each other\n");
      abort();
    }
  }
}

Result put(void *handle, std::function<Result()> run) {
  if (!current) return NO_CONTEXT;
  if (here().lost != OK) return here().lost;
  Stream *stream = of(handle);
  // The default stream and those that are not told otherwise wait for each other.
  Stream *usual = here().streams[0].get();
  if (stream == usual) {
    for (auto &other : here().streams)
      if (other.get() != usual && other->is_blocking) drain(current->device, other.get());
  } else if (stream->is_blocking) {
    drain(current->device, usual);
  }
  stream->queue.push_back({std::move(run), nullptr});
  return OK;
}

// -- Threads --------------------------------------------------------------------------------------

constexpr size_t STACK = 128 << 10, MOST_THREADS = 8192;
struct Fiber {
  ucontext_t context;
  bool is_done, is_waiting, is_spinning;
  int place, yes;
  kpe_u64 value;
};
// A block whose threads run: which of the fibers they are, and what they share.
struct Block_ {
  kpe_index index;
  kpe_u32 first;
  int any_yes;
  std::string shared;
};
std::vector<Fiber> fibers;
ucontext_t scheduler;
char *stacks = nullptr;
constexpr kpe_u64 LAUNCH = 1000;  // Steps that a grid takes besides those of its threads.
kpe_state state;
kpe_u32 running, base;
void (*kernel)(const void *);
const void *slots;
int any_yes;

void run_fiber() {
  kernel(slots);
  fibers[base + running].is_done = true;
  swapcontext(&fibers[base + running].context, &scheduler);
}

int barrier(int place, int yes) {
  Fiber &fiber = fibers[base + running];
  fiber.place = place;
  fiber.yes = yes;
  fiber.is_waiting = true;
  swapcontext(&fiber.context, &scheduler);
  return any_yes;
}

kpe_u64 exchange(int place, kpe_u64 value, kpe_u32 from) {
  fibers[base + running].value = value;
  barrier(place, 0);
  const kpe_u64 other = fibers[base + from].value;
  barrier(-place, 0);
  return other;
}

void spin() {
  Fiber &fiber = fibers[base + running];
  fiber.is_spinning = true;
  swapcontext(&fiber.context, &scheduler);
}

sigjmp_buf escape;
struct sigaction before_fault, before_abort;
void on_fault(int) { siglongjmp(escape, 1); }

void put_handlers(bool are_ours) {
  if (!are_ours) {
    sigaction(SIGSEGV, &before_fault, nullptr);
    sigaction(SIGBUS, &before_abort, nullptr);
    return;
  }
  struct sigaction action = {};
  action.sa_handler = on_fault;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &action, &before_fault);
  sigaction(SIGBUS, &action, &before_abort);
}

void set_thread(kpe_u32 at) {
  running = at;
  state.thread = {at % state.threads.x, at / state.threads.x, 0};
}

// Lets the threads of a block run until each waits or is done; whether any goes on.
bool run_round(Block_ &block, kpe_u32 count) {
  base = block.first;
  state.block = block.index;
  any_yes = block.any_yes;
  bool goes_on = false, is_spinning = false;
  int place = 0, yes = 0;
  for (kpe_u32 at = 0; at < count; ++at) {
    Fiber &fiber = fibers[base + at];
    if (fiber.is_done) continue;
    if (!fiber.is_waiting) {
      fiber.is_spinning = false;
      set_thread(at);
      swapcontext(&scheduler, &fiber.context);
      if (fiber.is_done) continue;
    }
    is_spinning |= fiber.is_spinning;
    if (fiber.is_waiting) {
      if (place && fiber.place != place) {
        fprintf(stderr, "emulated driver: threads of a block wait at lines %d and %d\n", place, fiber.place);
        abort();
      }
      place = fiber.place;
      yes |= fiber.yes;
    }
    goes_on = true;
  }
  if (!is_spinning) {
    block.any_yes = yes;
    for (kpe_u32 at = 0; at < count; ++at) fibers[base + at].is_waiting = false;
  }
  return goes_on;
}

// Runs blocks whose threads wait for each other, and which may do so themselves.
void run_together(std::vector<Block_> &blocks, char *shared, size_t bytes) {
  const kpe_u32 count = state.threads.x * state.threads.y;
  if (!stacks) stacks = (char *)mmap(nullptr, STACK * MOST_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  fibers.resize(std::max<size_t>(fibers.size(), count * blocks.size()));
  for (size_t which = 0; which < blocks.size(); ++which) {
    blocks[which].first = count * which;
    blocks[which].any_yes = 0;
    blocks[which].shared.assign(bytes, '\xcd');
    for (kpe_u32 at = count * which; at < count * (which + 1); ++at) {
      Fiber &fiber = fibers[at];
      fiber.is_done = fiber.is_waiting = fiber.is_spinning = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = stacks + STACK * at;
      fiber.context.uc_stack.ss_size = STACK;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, run_fiber, 0);
    }
  }
  for (bool goes_on = true; goes_on; pause_here()) {
    goes_on = false;
    // The last block first: the first one is not always in time.
    for (size_t which = blocks.size(); which-- > 0;) {
      memcpy(shared, blocks[which].shared.data(), bytes);
      goes_on |= run_round(blocks[which], count);
      blocks[which].shared.assign(shared, bytes);
    }
  }
}

struct Module {
  void *library;
  int file;
  char *shared;
  size_t shared_bytes;
};
struct Function {
  Module *module;
  void (*run)(const void *);
  bool waits;
  std::vector<unsigned> sizes;
};

// What a function is given: each parameter at a multiple of 8 bytes.
Result pack(const Function *function, void **parameters, std::string &into) {
  into.clear();
  size_t bytes = 0;
  for (size_t at = 0; at < function->sizes.size(); ++at) {
    bytes += function->sizes[at];
    into.append((const char *)parameters[at], function->sizes[at]);
    into.resize((into.size() + 7) / 8 * 8);
  }
  return bytes > (setting("KPE_VERSION", 12040) < 12010 ? 4096 : 32764) ? INVALID : OK;
}

Result run_grid(const Function *function, kpe_index blocks, kpe_index threads, const std::string &arguments, bool together = false) {
  Touch touch;
  put_handlers(true);
  state.steps += LAUNCH;
  Result result = OK;
  if (sigsetjmp(escape, 1) == 0) {
    kernel = function->run;
    slots = arguments.data();
    state.blocks = blocks;
    state.threads = threads;
    std::vector<Block_> all;
    for (kpe_u32 z = 0; z < blocks.z; ++z)
      for (kpe_u32 y = 0; y < blocks.y; ++y)
        for (kpe_u32 x = 0; x < blocks.x; ++x) {
          if (function->waits) {
            if (!together) all.clear();
            all.push_back({{x, y, z}, 0, 0, ""});
            if (!together) run_together(all, function->module->shared, function->module->shared_bytes);
            continue;
          }
          state.block = {x, y, z};
          for (kpe_u32 at = 0; at < threads.x * threads.y; ++at) {
            set_thread(at);
            kernel(slots);
          }
        }
    if (together) run_together(all, function->module->shared, function->module->shared_bytes);
  } else {
    result = ILLEGAL;
  }
  put_handlers(false);
  return result;
}

bool is_grid(unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty) {
  return bx && by && by <= 65535 && bz && bz <= 65535 && tx && ty && tx * ty <= 1024;
}

// -- Graphs ---------------------------------------------------------------------------------------

struct Node {
  struct Graph *graph;
  std::vector<Node *> after;
  const Function *function = nullptr;  // A kernel, and what it is given,
  kpe_index blocks, threads;
  std::string arguments;
  kpe_u64 handle = 0;  // or a loop.
  std::unique_ptr<struct Graph> body;
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<kpe_u64> handles;
  Graph *bodies[1];
  int executables = 0;
};
struct Condition {
  Graph *graph;
  unsigned usual, flags, value;
  bool is_used = false;
};
std::map<kpe_u64, Condition> conditions;
struct Executable {
  Graph *graph;
  struct Given { std::string arguments; kpe_index blocks, threads; };
  std::map<const Node *, Given> given;  // To kernels that were given others.
};

void set_condition(kpe_u64 handle, kpe_u32 value) {
  auto condition = conditions.find(handle);
  if (condition == conditions.end()) abort();
  condition->second.value = value;
}

bool has_loops(const Graph &graph) {
  for (auto &node : graph.nodes)
    if (node->body) return true;
  return false;
}

// Runs the nodes of a graph, of those that can run the youngest first.
Result run_graph(const Graph &graph, const Executable &executable, bool is_whole) {
  for (kpe_u64 handle : graph.handles) {
    Condition &condition = conditions[handle];
    // What nobody has set is something.
    condition.value = is_whole && (condition.flags & 1) ? condition.usual : 7;
  }
  std::map<const Node *, bool> done;
  for (size_t left = graph.nodes.size(); left > 0; --left) {
    const Node *next = nullptr;
    for (auto &node : graph.nodes)
      if (!done[node.get()] && std::all_of(node->after.begin(), node->after.end(), [&](Node *other) { return done[other]; }))
        next = node.get();
    if (!next) abort();
    done[next] = true;
    if (next->body) {
      const Condition &condition = conditions[next->handle];
      while (condition.value) {
        const Result result = run_graph(*next->body, executable, false);
        if (result != OK) return result;
        pause_here();
      }
      continue;
    }
    auto other = executable.given.find(next);
    const bool is_other = other != executable.given.end();
    const Result result = is_other ? run_grid(next->function, other->second.blocks, other->second.threads, other->second.arguments)
                                   : run_grid(next->function, next->blocks, next->threads, next->arguments);
    if (result != OK) return result;
  }
  return OK;
}

size_t length_of_object(const unsigned char *data) {
  uint64_t sections;
  uint16_t size, count;
  memcpy(&sections, data + 40, 8);
  memcpy(&size, data + 58, 2);
  memcpy(&count, data + 60, 2);
  return sections + size_t(size) * count;
}
}  // namespace

#define ENTER                                          \
  std::lock_guard<std::recursive_mutex> guard(lock);   \
  if (owner && owner != getpid()) return 3;

extern "C" {
// How many graphs were made to be launched, and how many of them are left.
long kpe_graphs_made = 0, kpe_graphs_left = 0;

Result cuDriverGetVersion(int *version) { return *version = setting("KPE_VERSION", 12040), OK; }

Result cuInit(unsigned) {
  ENTER
  if (owner) return OK;
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  const long count = visible && !*visible ? 0 : setting("KPE_DEVICES", 2);
  if (count == 0) return NO_DEVICE;
  owner = getpid();
  arena = (char *)mmap(nullptr, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  devices.resize(count);
  for (int at = 0; at < count; ++at) {
    contexts.push_back({at});
    devices[at].streams.emplace_back(new Stream{at, true, {}});
  }
  state.barrier = barrier;
  state.exchange = exchange;
  state.spin = spin;
  state.set_condition = set_condition;
  return OK;
}

Result cuDeviceGetCount(int *count) { return *count = (int)devices.size(), OK; }
Result cuDeviceGet(int *device, int ordinal) {
  return ordinal < (int)devices.size() ? (*device = ordinal, OK) : WRONG_DEVICE;
}
Result cuDeviceGetName(char *name, int length, int) { return strncpy(name, "an emulated device", length), OK; }
Result cuDeviceGetAttribute(int *value, int attribute, int) {
  const long capability = setting("KPE_CAPABILITY", 90);
  *value = attribute == 16 ? 4 : attribute == 95 ? setting("KPE_COOPERATION", 1) : attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0;
  return OK;
}
Result cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = setting("KPE_MEMORY", 1L << 30), OK; }
Result cuDevicePrimaryCtxRetain(Context **context, int device) { return *context = &contexts[device], OK; }
Result cuDeviceGetDefaultMemPool(void **pool, int) { return *pool = (void *)1, OK; }
Result cuMemPoolSetAttribute(void *, int, void *) { return OK; }
Result cuMemPoolTrimTo(void *, size_t) { return OK; }
Result cuCtxGetCurrent(Context **context) {
  static const bool does_nothing = getenv("KPE_NOTHING");
  if (!does_nothing && owner && owner != getpid()) return 3;
  return *context = current, OK;
}
Result cuCtxSetCurrent(Context *context) {
  ENTER
  return current = context, OK;
}
Result cuCtxSynchronize() {
  wait_until_unstuck();
  // In pieces: others may go on meanwhile.
  for (;; sched_yield()) {
    ENTER
    if (!current) return NO_CONTEXT;
    bool is_done = true;
    for (auto &stream : here().streams) is_done &= stream->queue.empty();
    if (is_done || !advance()) return drain(current->device, nullptr);
  }
}

Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER
  *total = setting("KPE_MEMORY", 1L << 30);
  *free = *total - used_bytes[current->device];
  return OK;
}

Result cuModuleLoadData(Module **module, const void *image) {
  ENTER
  if (!current) return NO_CONTEXT;
  if (memcmp(image, "\177ELF", 4) != 0) return WRONG_CODE;
  const int file = memfd_create("kernel", 0);
  const size_t bytes = length_of_object((const unsigned char *)image);
  if (write(file, image, bytes) != (ssize_t)bytes) return WRONG_CODE;
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto bind = library ? (void (*)(kpe_state *))dlsym(library, "kpe_bind") : nullptr;
  if (!bind) return WRONG_CODE;
  bind(&state);
  // The file stays open: the loader takes one of the same name for the same library.
  auto shared = (char *(*)(int))dlsym(library, "kpe_shares");
  *module = new Module{library, file, shared(0), (size_t)(shared(1) - shared(0))};
  return OK;
}
Result cuModuleUnload(Module *module) {
  ENTER
  for (size_t at = 0; at < devices.size(); ++at) drain(at, nullptr);
  dlclose(module->library);
  close(module->file);
  delete module;
  return OK;
}
Result cuModuleGetFunction(Function **function, Module *module, const char *name) {
  ENTER
  void *found = dlsym(module->library, (std::string("kpe_") + name).c_str());
  if (!found) return NOT_FOUND;
  auto sizes = (unsigned (*)(unsigned *))dlsym(module->library, (std::string("kpe_sizes_") + name).c_str());
  std::vector<unsigned> all(64);
  all.resize(sizes(all.data()));
  const bool waits = *(int *)dlsym(module->library, (std::string("kpe_waits_") + name).c_str());
  *function = new Function{module, (void (*)(const void *))found, waits, all};
  return OK;
}
Result cuFuncGetAttribute(int *value, int attribute, Function *) { return *value = attribute == 4 ? 32 : 0, OK; }
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, Function *, int, size_t) { return *count = 2, OK; }

Result cuLaunchKernel(Function *function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned, unsigned,
                      void *stream, void **parameters, void **) {
  static const bool does_nothing = getenv("KPE_NOTHING");
  if (does_nothing) return OK;
  ENTER
  if (!current) return NO_CONTEXT;
  std::string arguments;
  if (!is_grid(bx, by, bz, tx, ty) || pack(function, parameters, arguments) != OK) return INVALID;
  return put(stream, [=] { return run_grid(function, {bx, by, bz}, {tx, ty, 1}, arguments); });
}
Result cuLaunchCooperativeKernel(Function *function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned,
                                 unsigned, void *stream, void **parameters) {
  static const bool does_nothing = getenv("KPE_NOTHING");
  if (does_nothing) return OK;
  ENTER
  if (!current) return NO_CONTEXT;
  std::string arguments;
  if (!is_grid(bx, by, bz, tx, ty) || pack(function, parameters, arguments) != OK) return INVALID;
  // As many blocks as run at a time: two of each of four multiprocessors.
  if (bx * by * bz > 8) return TOO_LARGE;
  return put(stream, [=] { return run_grid(function, {bx, by, bz}, {tx, ty, 1}, arguments, true); });
}

struct KernelNode {
  Function *function;
  unsigned bx, by, bz, tx, ty, tz, shared;
  void **parameters, **extra;
  void *kernel, *context;
};
struct ConditionalNode {
  unsigned kind, reserved[3];
  kpe_u64 handle;
  unsigned condition, size;
  Graph **bodies;
  void *context;
};
Result cuGraphCreate(Graph **graph, unsigned) { return *graph = new Graph, OK; }
Result cuGraphDestroy(Graph *graph) {
  ENTER
  return delete graph, OK;
}
Result cuGraphAddKernelNode_v2(Node **node, Graph *graph, Node *const *after, size_t count, const KernelNode *described) {
  ENTER
  std::unique_ptr<Node> made(new Node);
  made->graph = graph;
  made->after.assign(after, after + count);
  for (Node *other : made->after)
    if (other->graph != graph) return INVALID;
  made->function = described->function;
  made->blocks = {described->bx, described->by, described->bz};
  made->threads = {described->tx, described->ty, 1};
  const bool fits = is_grid(described->bx, described->by, described->bz, described->tx, described->ty);
  if (!fits || pack(described->function, described->parameters, made->arguments) != OK) return INVALID;
  *node = made.get();
  graph->nodes.push_back(std::move(made));
  return OK;
}
Result cuGraphConditionalHandleCreate(kpe_u64 *handle, Graph *graph, void *context, unsigned usual, unsigned flags) {
  ENTER
  static kpe_u64 handles = 0;
  if (!context) return INVALID;
  *handle = ++handles;
  conditions[*handle] = {graph, usual, flags, 7};
  graph->handles.push_back(*handle);
  return OK;
}
Result cuGraphAddNode_v2(Node **node, Graph *graph, Node *const *after, const void *, size_t count, ConditionalNode *described) {
  ENTER
  if (described->kind != 13 || described->condition != 1 || described->size != 1) return INVALID;
  auto condition = conditions.find(described->handle);
  if (condition == conditions.end() || condition->second.graph != graph || condition->second.is_used) return INVALID;
  condition->second.is_used = true;
  std::unique_ptr<Node> made(new Node);
  made->graph = graph;
  made->after.assign(after, after + count);
  for (Node *other : made->after)
    if (other->graph != graph) return INVALID;
  made->handle = described->handle;
  made->body.reset(new Graph);
  graph->bodies[0] = made->body.get();
  described->bodies = graph->bodies;
  *node = made.get();
  graph->nodes.push_back(std::move(made));
  return OK;
}
Result cuGraphInstantiateWithFlags(Executable **executable, Graph *graph, kpe_u64) {
  ENTER
  if (graph->executables++ && has_loops(*graph)) return INVALID;
  *executable = new Executable{graph, {}};
  ++kpe_graphs_made, ++kpe_graphs_left;
  return OK;
}
Result cuGraphUpload(Executable *, void *) { return OK; }
Result cuGraphExecKernelNodeSetParams_v2(Executable *executable, Node *node, const KernelNode *described) {
  ENTER
  // Only those of the graph itself, not of loops in it.
  if (node->graph != executable->graph || described->function != node->function) return INVALID;
  if (!is_grid(described->bx, described->by, described->bz, described->tx, described->ty)) return INVALID;
  auto &given = executable->given[node];
  given.blocks = {described->bx, described->by, described->bz};
  given.threads = {described->tx, described->ty, 1};
  return pack(described->function, described->parameters, given.arguments);
}
Result cuGraphLaunch(Executable *executable, void *stream) {
  static const bool does_nothing = getenv("KPE_NOTHING");
  if (does_nothing) return OK;
  ENTER
  if (!current) return NO_CONTEXT;
  // What it is given later is for later launches.
  const Executable as_now = *executable;
  return put(stream, [=] { return run_graph(*as_now.graph, as_now, true); });
}
Result cuGraphExecDestroy(Executable *executable) {
  ENTER
  for (size_t at = 0; at < devices.size(); ++at) drain(at, nullptr);
  --kpe_graphs_left;
  return delete executable, OK;
}

Result cuStreamCreate(Stream **stream, unsigned flags) {
  ENTER
  if (!current) return NO_CONTEXT;
  here().streams.emplace_back(new Stream{current->device, !(flags & 1), {}});
  *stream = here().streams.back().get();
  return OK;
}
Result cuStreamSynchronize(void *stream) {
  wait_until_unstuck();
  ENTER
  return current ? drain(current->device, of(stream)) : NO_CONTEXT;
}
// Work goes on while it is asked for: a piece now and then, or none while `KPE_STUCK` names a file that is there.
Result cuStreamQuery(void *stream) {
  ENTER
  static unsigned asked = 0;
  if (!of(stream)->queue.empty() && ++asked % 3 == 0 && !is_stuck()) advance();
  return of(stream)->queue.empty() ? here().lost : NOT_READY;
}
Result cuStreamIsCapturing(void *, int *status) { return *status = 0, OK; }
Result cuThreadExchangeStreamCaptureMode(unsigned *mode) {
  static thread_local unsigned own = 0;
  return std::swap(own, *mode), OK;
}

Result cuEventCreate(Event **event, unsigned) { return *event = new Event, OK; }
Result cuEventRecord(Event *event, void *stream) {
  ENTER
  auto happened = event->state = std::make_shared<EventState>();
  happened->done = false;
  return put(stream, [=] { return happened->at = state.steps, happened->done = true, OK; });
}
Result cuEventQuery(Event *event) {
  ENTER
  static unsigned asked = 0;
  if (!event->state->done && ++asked % 3 == 0 && !is_stuck()) advance();
  // What was lost never happens.
  return event->state->done ? OK : here().lost != OK ? here().lost : NOT_READY;
}
Result cuEventSynchronize(Event *event) {
  ENTER
  for (size_t at = 0; at < devices.size() && !event->state->done; ++at) drain(at, nullptr);
  return here().lost;
}
Result cuEventElapsedTime(float *ms, Event *first, Event *last) {
  return *ms = (float)(last->state->at - first->state->at) / 1e6f, OK;
}
Result cuEventDestroy_v2(Event *event) { return delete event, OK; }
Result cuStreamWaitEvent(void *stream, Event *event, unsigned) {
  ENTER
  of(stream)->queue.push_back({nullptr, event->state});
  return OK;
}

Result cuMemAllocAsync(Pointer *pointer, size_t bytes, void *) {
  ENTER
  if (!current) return NO_CONTEXT;
  if (here().lost != OK) return here().lost;
  const size_t room = (std::max<size_t>(bytes, 1) + 511) / 512 * 512;
  if (used_bytes[current->device] + (long)bytes > setting("KPE_MEMORY", 1L << 30)) return NO_ROOM;
  size_t at;
  auto hole = holes.lower_bound(room);
  if (hole != holes.end() && hole->first == room) {
    at = hole->second;
    holes.erase(hole);
  } else {
    if (arena_end + room > RESERVED) return NO_ROOM;
    at = arena_end;
    arena_end += (room + PAGE - 1) / PAGE * PAGE;
  }
  used_bytes[current->device] += bytes;
  blocks[at] = {bytes, room, current->device};
  *pointer = (Pointer)(arena + at);
  Touch touch;
  mprotect(arena, arena_end, PROT_READ | PROT_WRITE);
  memset(arena + at, 0xcd, room);
  return OK;
}
Result cuMemFreeAsync(Pointer pointer, void *stream) {
  ENTER
  const size_t at = pointer - (Pointer)arena;
  auto block = blocks.find(at);
  if (block == blocks.end()) return INVALID;
  const Block known = block->second;
  blocks.erase(block);
  return put(stream, [=] {
    Touch touch;
    // Protecting what nobody uses takes long, if there is much of it.
    if (known.room < LARGE || madvise(arena + at, known.room, MADV_DONTNEED)) memset(arena + at, 0xdb, known.room);
    used_bytes[known.device] -= known.bytes;
    holes.emplace(known.room, at);
    return OK;
  });
}
Result cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  *pointer = malloc(bytes);
  memset(*pointer, 0xcd, bytes);
  return OK;
}
Result cuMemFreeHost(void *pointer) {
  for (size_t at = 0; at < devices.size(); ++at) drain(at, nullptr);
  free(pointer);
  return OK;
}

// Whether bytes are inside of what was allocated.
static bool is_inside(Pointer pointer, size_t bytes) {
  const size_t at = pointer - (Pointer)arena;
  auto block = blocks.upper_bound(at);
  return block != blocks.begin() && (--block, at + bytes <= block->first + block->second.room);
}
Result cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t bytes, void *stream) {
  ENTER
  if (!is_inside(to, bytes)) return INVALID;
  std::string copy((const char *)from, bytes);
  return put(stream, [=] {
    Touch touch;
    memcpy((void *)to, copy.data(), bytes);
    return OK;
  });
}
Result cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t bytes, void *stream) {
  ENTER
  if (!is_inside(from, bytes)) return INVALID;
  return put(stream, [=] {
    Touch touch;
    memcpy(to, (void *)from, bytes);
    return OK;
  });
}
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void *stream) {
  ENTER
  if (!is_inside(from, bytes) || !is_inside(to, bytes)) return INVALID;
  return put(stream, [=] {
    Touch touch;
    memmove((void *)to, (void *)from, bytes);
    return OK;
  });
}
Result cuMemsetD8Async(Pointer to, unsigned char byte, size_t bytes, void *stream) {
  ENTER
  if (!is_inside(to, bytes)) return INVALID;
  return put(stream, [=] {
    Touch touch;
    memset((void *)to, byte, bytes);
    return OK;
  });
}
Result cuPointerGetAttribute(void *value, int attribute, Pointer pointer) {
  ENTER
  auto block = blocks.upper_bound(pointer - (Pointer)arena);
  if (pointer < (Pointer)arena || block == blocks.begin()) return INVALID;
  --block;
  if (attribute != 9) return INVALID;
  *(int *)value = block->second.device;
  return OK;
}
Result cuGetErrorName(Result code, const char **name) {
  *name = code == ILLEGAL ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == NO_ROOM ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_EMULATED";
  return OK;
}
Result cuGetErrorString(Result code, const char **text) {
  *text = code == ILLEGAL ? "an illegal memory access was encountered" : "something that the emulated driver refuses";
  return OK;
}
}
