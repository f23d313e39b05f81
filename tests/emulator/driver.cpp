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
                NOT_FOUND = 500, NOT_READY = 600, ILLEGAL = 700, WRONG_HANDLE = 400 };

long setting(const char *name, long usual) {
  const char *text = getenv(name);
  return text ? atol(text) : usual;
}

std::recursive_mutex lock;
pid_t owner = 0;

// -- Memory ---------------------------------------------------------------------------------------

constexpr size_t PAGE = 4096, RESERVED = size_t(16) << 30;
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

// Runs the first work of a stream that can run; whether there was any.
bool step(Device &device, Stream *stream) {
  if (stream->queue.empty()) return false;
  Work &work = stream->queue.front();
  if (work.after && !work.after->done) return false;
  auto run = std::move(work.run);
  stream->queue.pop_front();
  if (device.lost == OK && run) {
    const Result result = run();
    if (result != OK) device.lost = result;
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
      if (step(device, device.streams[at].get())) return true;
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

constexpr size_t STACK = 128 << 10;
struct Fiber {
  ucontext_t context;
  bool is_done;
  int place, yes;
  kpe_u64 value;
};
std::vector<Fiber> fibers;
ucontext_t scheduler;
char *stacks = nullptr;
kpe_state state;
kpe_u32 running;
void (*kernel)(const void *);
const void *slots;
int any_yes;

void run_fiber() {
  kernel(slots);
  fibers[running].is_done = true;
  swapcontext(&fibers[running].context, &scheduler);
}

int barrier(int place, int yes) {
  Fiber &fiber = fibers[running];
  fiber.place = place;
  fiber.yes = yes;
  swapcontext(&fiber.context, &scheduler);
  return any_yes;
}

kpe_u64 exchange(int place, kpe_u64 value, kpe_u32 from) {
  fibers[running].value = value;
  barrier(place, 0);
  const kpe_u64 other = fibers[from].value;
  barrier(-place, 0);
  return other;
}

sigjmp_buf escape;
struct sigaction before_fault, before_abort;
void on_fault(int) { siglongjmp(escape, 1); }

void set_thread(kpe_u32 at) {
  running = at;
  state.thread = {at % state.threads.x, at / state.threads.x, 0};
}

void run_block(bool waits) {
  const kpe_u32 count = state.threads.x * state.threads.y;
  if (!waits) {
    for (kpe_u32 at = 0; at < count; ++at) {
      set_thread(at);
      kernel(slots);
    }
    return;
  }
  if (!stacks) stacks = (char *)mmap(nullptr, STACK * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  fibers.resize(std::max<size_t>(fibers.size(), count));
  for (kpe_u32 at = 0; at < count; ++at) {
    Fiber &fiber = fibers[at];
    fiber.is_done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks + STACK * at;
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
  }
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    int place = 0, yes = 0;
    for (kpe_u32 at = 0; at < count; ++at) {
      if (fibers[at].is_done) continue;
      set_thread(at);
      swapcontext(&scheduler, &fibers[at].context);
      if (fibers[at].is_done) continue;
      if (goes_on && fibers[at].place != place) {
        fprintf(stderr, "emulated driver: threads of a block wait at lines %d and %d\n", place, fibers[at].place);
        abort();
      }
      goes_on = true;
      place = fibers[at].place;
      yes |= fibers[at].yes;
    }
    any_yes = yes;
  }
}

struct Module {
  void *library;
  int file;
  size_t bytes;
  int waits;
};
struct Function {
  Module *module;
  void (*run)(const void *);
};

Result run_grid(Function *function, kpe_index blocks, kpe_index threads, const std::string &arguments) {
  Touch touch;
  struct sigaction action = {};
  action.sa_handler = on_fault;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &action, &before_fault);
  sigaction(SIGBUS, &action, &before_abort);
  Result result = OK;
  if (sigsetjmp(escape, 1) == 0) {
    kernel = function->run;
    slots = arguments.data();
    state.blocks = blocks;
    state.threads = threads;
    for (kpe_u32 z = 0; z < blocks.z; ++z)
      for (kpe_u32 y = 0; y < blocks.y; ++y)
        for (kpe_u32 x = 0; x < blocks.x; ++x) {
          state.block = {x, y, z};
          run_block(function->module->waits);
        }
  } else {
    result = ILLEGAL;
  }
  sigaction(SIGSEGV, &before_fault, nullptr);
  sigaction(SIGBUS, &before_abort, nullptr);
  return result;
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
  return OK;
}

Result cuDeviceGetCount(int *count) { return *count = (int)devices.size(), OK; }
Result cuDeviceGet(int *device, int ordinal) {
  return ordinal < (int)devices.size() ? (*device = ordinal, OK) : WRONG_DEVICE;
}
Result cuDeviceGetName(char *name, int length, int) { return strncpy(name, "an emulated device", length), OK; }
Result cuDeviceGetAttribute(int *value, int attribute, int) {
  const long capability = setting("KPE_CAPABILITY", 90);
  *value = attribute == 16 ? 4 : attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0;
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
  ENTER
  return current ? drain(current->device, nullptr) : NO_CONTEXT;
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
  *module = new Module{library, file, (size_t)*(kpe_u64 *)dlsym(library, "kpe_bytes"), *(int *)dlsym(library, "kpe_waits")};
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
  *function = new Function{module, (void (*)(const void *))found};
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
  if (bx == 0 || by == 0 || by > 65535 || bz == 0 || bz > 65535 || tx * ty == 0 || tx * ty > 1024) return INVALID;
  if (function->module->bytes > (setting("KPE_VERSION", 12040) < 12010 ? 4096 : 32764)) return INVALID;
  std::string arguments((const char *)parameters[0], function->module->bytes);
  return put(stream, [=] { return run_grid(function, {bx, by, bz}, {tx, ty, 1}, arguments); });
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

Result cuEventCreate(Event **event, unsigned) { return *event = new Event, OK; }
Result cuEventRecord(Event *event, void *stream) {
  ENTER
  auto happened = event->state = std::make_shared<EventState>();
  happened->done = false;
  return put(stream, [=] { return happened->done = true, OK; });
}
Result cuEventQuery(Event *event) { return event->state->done ? OK : NOT_READY; }
Result cuEventSynchronize(Event *event) {
  ENTER
  for (size_t at = 0; at < devices.size() && !event->state->done; ++at) drain(at, nullptr);
  return here().lost;
}
Result cuEventElapsedTime(float *ms, Event *, Event *) { return *ms = 0.25f, OK; }
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
    memset(arena + at, 0xdb, known.room);
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
