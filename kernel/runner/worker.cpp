#include "kernel/runner/worker.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernel/runner/one_line.h"
#include "kernel/runner/serve.h"

extern char** environ;

namespace attest {

namespace {

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

constexpr int kTickMs = 20;             // between looks at a worker that is taking its time
constexpr int kCallsBetweenLooks = 64;  // at its memory, while its calls are short
constexpr double kEndSeconds = 2;       // for a worker whose connection is closed to be gone
constexpr off_t kMostSaid = 1 << 20;    // bytes kept of what a worker prints
constexpr size_t kMostQuoted = 200;     // characters of it that a message repeats

using Clock = std::chrono::steady_clock;

thread_local Losses losses;

struct CannotStart : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void cannot(const char* what) { throw CannotStart(std::string("no worker can be started: ") + what + ": " + std::strerror(errno)); }

// A file descriptor that is closed when this ends.
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(int fd, const char* what) : fd_(fd) {
    if (fd < 0) cannot(what);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// Memory that a worker can map, of a size that never shrinks.
class Shared {
 public:
  explicit Shared(size_t bytes) : file_(static_cast<int>(syscall(SYS_memfd_create, "attest", MFD_CLOEXEC | MFD_ALLOW_SEALING)), "memfd_create") {
    if (bytes > 0) grow(bytes);
  }
  ~Shared() {
    if (at_ != nullptr) munmap(at_, bytes_);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  void seal(int seals) {
    if (fcntl(file_.get(), F_ADD_SEALS, seals) != 0) cannot("sealing its memory");
  }
  // Throws std::bad_alloc where there is no room.
  void grow(size_t bytes) {
    if (bytes <= bytes_) return;
    if (ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) throw std::bad_alloc();
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    if (at_ != nullptr) munmap(at_, bytes_);
    at_ = static_cast<uint8_t*>(at);
    bytes_ = bytes;
  }
  uint8_t* at() const { return at_; }
  size_t bytes() const { return bytes_; }
  int file() const { return file_.get(); }

 private:
  Descriptor file_;
  uint8_t* at_ = nullptr;
  size_t bytes_ = 0;
};

std::string mebibytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", seconds);
  return text;
}

std::string describe_end(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return "it exited with status " + std::to_string(info.si_status) + " before it answered";
  const char* name = sigdescr_np(info.si_status);
  return std::string(name != nullptr ? name : "signal") + " (signal " + std::to_string(info.si_status) + ")";
}

// Texts of a reply may lack their end.
template <size_t N>
std::string text_of(const char (&bytes)[N]) {
  return {bytes, strnlen(bytes, N)};
}

std::filesystem::path this_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

// The command that serves `name`, up to where the ends of the connection are told.
std::vector<std::string> command_for(const std::string& name, const Isolation& isolation) {
  if (!is_python(name)) return {isolation.program.empty() ? (this_folder() / "attest").string() : isolation.program, kWorkerFlag};
  const std::filesystem::path program = isolation.program;
  const bool here = program.empty() || program == "/proc/self/exe";
  const std::filesystem::path files = (here ? this_folder() : program.parent_path()).parent_path() / "libexec/attest";
  return {isolation.python, (files / "attest_worker.py").string(), (files / "libattest_worker.so").string()};
}

}  // namespace

const Losses& losses_of_this_thread() { return losses; }

bool is_python(const std::string& name) { return name.find(".py:") != std::string::npos || name.ends_with(".py"); }

class Worker::Process {
 public:
  Process(const std::vector<std::string>& command, const std::vector<std::string>& more, const Isolation& isolation)
      : isolation_(isolation), request_(sizeof(wire::Request)), reply_(sizeof(wire::Reply)), image_(0), said_(static_cast<int>(syscall(SYS_memfd_create, "attest", MFD_CLOEXEC)), "memfd_create") {
    request_.seal(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
    reply_.seal(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    image_.seal(F_SEAL_SHRINK | F_SEAL_SEAL);
    new (request_.at()) wire::Request;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) cannot("socketpair");
    socket_ = Descriptor(ends[0], "socketpair");
    const Descriptor theirs(ends[1], "socketpair");
    const timeval tick{0, 1000 * kTickMs};
    if (setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick) != 0) cannot("setsockopt");
    fcntl(said_.get(), F_SETFL, O_APPEND);
    spawn(command, more, theirs.get());
  }
  ~Process() { kill_and_reap(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  wire::Request& request() { return *reinterpret_cast<wire::Request*>(request_.at()); }
  // What a worker wrote; it may change under the reader's eyes, so copy first and check the copy.
  const volatile wire::Reply& reply() const { return *reinterpret_cast<const volatile wire::Reply*>(reply_.at()); }
  template <class T>
  T read(const volatile T& from) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T copy;
    std::memcpy(static_cast<void*>(&copy), const_cast<const T*>(&from), sizeof copy);
    return copy;
  }
  uint8_t* image(size_t bytes) {
    if (bytes > image_.bytes()) image_.grow((bytes + bytes / 4 + 4095) / 4096 * 4096);
    request().image_bytes = image_.bytes();
    return image_.at();
  }

  // Asks, and waits for the answer. Throws Lost.
  void call(wire::Op op) {
    wire::Request& r = request();
    r.op = op;
    ++r.sequence;
    const char byte = 1;
    if (send(socket_.get(), &byte, 1, MSG_NOSIGNAL) != 1) lose_closed();
    wait(isolation_.seconds);
    if (read(reply().sequence) != r.sequence) lose(RunStatus::crashed, "it answered another question than it was asked");
    if (read(reply().device_lost) != 0) lose(RunStatus::crashed, one_line(text_of(read_words().words), kMostQuoted));
    if (++calls_ % kCallsBetweenLooks == 0) look_at_memory();
    if (calls_ % kCallsBetweenLooks == 0 && lseek(said_.get(), 0, SEEK_END) > kMostSaid && ftruncate(said_.get(), 0) != 0) cannot("emptying what it said");
  }

  // The answer to what was asked last, or to loading. Throws Lost.
  void wait(double seconds) {
    const auto start = Clock::now();
    for (;;) {
      char byte;
      const ssize_t got = recv(socket_.get(), &byte, 1, 0);  // returns after a tick
      if (got == 1) return;
      if (got == 0 || (errno != EAGAIN && errno != EINTR)) lose_closed();
      // What it started may hold its end of the socket open.
      pollfd end{pidfd_.get(), POLLIN, 0};
      if (poll(&end, 1, 0) > 0) lose_closed();
      siginfo_t info{};
      if (waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0)
        lose(RunStatus::timed_out, "it was stopped (signal " + std::to_string(info.si_status) + ")");
      look_at_memory();
      if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) lose(RunStatus::timed_out, "no answer within " + seconds_text(seconds));
    }
  }

  // Asks the process to end and waits for it; what was wrong with its end.
  std::string end() {
    request().op = wire::Op::end;
    ++request().sequence;
    const char byte = 1;
    if (send(socket_.get(), &byte, 1, MSG_NOSIGNAL) != 1) return "it was gone";
    siginfo_t info{};
    if (!gone_within(isolation_.seconds, info)) return "it did not end within " + seconds_text(isolation_.seconds);
    if (info.si_code == CLD_EXITED && info.si_status == 0) return "";
    return (info.si_code == CLD_EXITED ? "it ended with status " + std::to_string(info.si_status) : describe_end(info)) + last_words();
  }

  wire::Reply read_words() const { return read(reply()); }

 private:
  void spawn(const std::vector<std::string>& command, const std::vector<std::string>& more, int theirs) {
    const std::string ends = std::to_string(theirs) + "," + std::to_string(request_.file()) + "," + std::to_string(reply_.file()) + "," + std::to_string(image_.file());
    std::vector<std::string> words = command;
    words.push_back(ends);
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int out : {STDOUT_FILENO, STDERR_FILENO}) posix_spawn_file_actions_adddup2(&files, said_.get(), out);
    for (int inherited : {theirs, request_.file(), reply_.file(), image_.file()}) posix_spawn_file_actions_adddup2(&files, inherited, inherited);
    posix_spawnattr_t how;
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&how, 0);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&how, &none);
    const int error = posix_spawnp(&pid_, argv[0], &files, &how, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    if (error != 0) {
      pid_ = -1;
      errno = error;
      cannot(("'" + command.front() + "'").c_str());
    }
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    if (pidfd < 0) {
      kill_and_reap();
      cannot("pidfd_open");
    }
    pidfd_ = Descriptor(pidfd, "pidfd_open");
  }

  [[noreturn]] void lose(RunStatus status, const std::string& what) {
    const std::string message = what + last_words();
    kill_and_reap();
    ++losses.count;
    losses.status = status;
    losses.what = message;
    throw Lost(status, message);
  }
  // It is gone, or about to be.
  [[noreturn]] void lose_closed() {
    siginfo_t info{};
    if (!gone_within(kEndSeconds, info)) lose(RunStatus::crashed, "it closed its connection");
    lose(RunStatus::crashed, describe_end(info));
  }
  bool gone_within(double seconds, siginfo_t& info) {
    pollfd end{pidfd_.get(), POLLIN, 0};
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      const int ready = poll(&end, 1, static_cast<int>(std::max<int64_t>(left, 0)));
      if (ready > 0) break;
      if (ready == 0 || errno != EINTR) return false;
    }
    return waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }
  void kill_and_reap() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);  // with what it started
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  void look_at_memory() {
    std::FILE* file = std::fopen(("/proc/" + std::to_string(pid_) + "/statm").c_str(), "re");
    if (file == nullptr) return;
    unsigned long size = 0, resident = 0;
    const int read = std::fscanf(file, "%lu %lu", &size, &resident);
    std::fclose(file);
    const uint64_t bytes = uint64_t{resident} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    if (read == 2 && bytes > isolation_.memory) lose(RunStatus::crashed, "it held " + mebibytes(bytes) + " of memory, the limit is " + mebibytes(isolation_.memory));
  }
  // The line of what it printed that says most, as "; it said: ...".
  std::string last_words() const {
    const off_t end = lseek(said_.get(), 0, SEEK_END);
    constexpr off_t kTail = 16384;
    std::string text(static_cast<size_t>(std::clamp<off_t>(end, 0, kTail)), 0);
    const ssize_t got = pread(said_.get(), text.data(), text.size(), std::max<off_t>(end - kTail, 0));
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    std::string last, telling;
    for (size_t at = 0; at < text.size();) {
      const size_t stop = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, stop - at);
      if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
      if (telling.empty() && line.find("ERROR: ") != std::string::npos) telling = line;  // a sanitizer's first line
      at = stop + 1;
    }
    const std::string& words = telling.empty() ? last : telling;
    return words.empty() ? "" : "; it said: " + one_line(words, kMostQuoted);
  }

  Isolation isolation_;
  Shared request_, reply_, image_;
  Descriptor socket_, pidfd_, said_;
  pid_t pid_ = -1;
  int64_t calls_ = 0;
};

Worker::Worker(std::unique_ptr<Process> process) : process_(std::move(process)) {}
Worker::~Worker() = default;

std::variant<std::unique_ptr<Worker>, LoadError> Worker::start(const std::string& name, const Isolation& isolation) {
  std::unique_ptr<Worker> worker;
  try {
    worker.reset(new Worker(std::make_unique<Process>(command_for(name, isolation), std::vector<std::string>{name}, isolation)));
    worker->process_->wait(std::max(isolation.seconds, isolation.load_seconds));
  } catch (const CannotStart& e) {
    return LoadError{LoadError::Kind::bad_plugin, e.what()};
  } catch (const Lost& lost) {
    const char* what = lost.status == RunStatus::timed_out ? "does not load" : "does not survive its loading";
    return LoadError{LoadError::Kind::crashed, "plug-in '" + name + "' " + what + ": " + lost.what()};
  }
  const wire::Reply reply = worker->process_->read_words();
  if (reply.loaded == 1) return worker;
  const auto kind = reply.load_error == static_cast<int32_t>(LoadError::Kind::not_found)   ? LoadError::Kind::not_found
                    : reply.load_error == static_cast<int32_t>(LoadError::Kind::no_device) ? LoadError::Kind::no_device
                                                                                           : LoadError::Kind::bad_plugin;
  return LoadError{kind, (is_python(name) ? "plug-in " : "") + one_line(text_of(reply.words), sizeof reply.words)};
}

const wire::Description& Worker::description() const { return const_cast<const wire::Description&>(process_->reply().description); }

Needs Worker::ask(const PlannedCall& call) {
  // Runs of one case differ in contents, and often in nothing else.
  if (asked_ && std::memcmp(&*asked_, &call, sizeof call) == 0) return said_;
  std::memcpy(static_cast<void*>(&process_->request().call), &call, sizeof call);
  process_->call(wire::Op::ask);
  said_ = process_->read(process_->reply().needs);
  said_.reason[sizeof said_.reason - 1] = 0;
  asked_.emplace();
  std::memcpy(static_cast<void*>(&*asked_), &call, sizeof call);
  return said_;
}

uint8_t* Worker::room(size_t bytes) {
  if (image_.size() < bytes) image_.resize(bytes);
  return image_.data();
}

Outcome Worker::make(wire::Op op, size_t size, uint8_t* image) {
  std::memcpy(process_->image(size), image, size);
  process_->call(op);
  Outcome out = process_->read(process_->reply().outcome);
  out.message[sizeof out.message - 1] = 0;
  if (out.status == ATTEST_OK) std::memcpy(image, process_->image(size), size);
  return out;
}

Outcome Worker::forward(const PlannedCall& call, uint8_t* image) {
  process_->request().call = call;
  return make(wire::Op::forward, call.plan.size, image);
}

Outcome Worker::forward_two(const PlannedCall& first, const PlannedCall& second, uint8_t* image) {
  process_->request().call = first;
  process_->request().second = second;
  return make(wire::Op::forward_two, second_image(first) + second.plan.size, image);
}

Outcome Worker::merge(const PlannedMerge& call, uint8_t* image) {
  process_->request().merging = call;
  return make(wire::Op::merge, call.plan.size, image);
}

std::string Worker::end() { return process_->end(); }

}  // namespace attest
