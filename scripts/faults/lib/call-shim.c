/*
 * Preloaded into the program under test (LD_PRELOAD): the n-th write, sync or truncation of all its threads
 * together is its last moment, or is refused.
 *
 *   CALL_FILE  the numbers of `struct control`, which whoever runs it sets and reads while it runs
 *
 * A program cannot be told from outside which of its threads writes next, and strace counts each thread and
 * each call apart: here all are one sequence.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, TRUNCATE = 4 };

struct control {
  uint32_t armed;
  uint32_t kinds;   /* which calls are counted */
  uint32_t from;    /* the first that is met, from 1 */
  uint32_t to;      /* and the last */
  uint32_t refusal; /* the errno, or 0 for a death */
  uint32_t count;
  uint32_t met;     /* how many were met */
};

static volatile struct control *control = NULL;

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void start(void) {
  const char *path = getenv("CALL_FILE");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *seen = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (seen != MAP_FAILED) control = seen;
  close(fd);
}

static int refused(uint32_t kind) {
  if (!control || !control->armed || !(control->kinds & kind)) return 0;
  uint32_t n = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
  if (n < control->from || n > control->to) return 0;
  __atomic_add_fetch(&control->met, 1, __ATOMIC_SEQ_CST);
  if (control->refusal == 0) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  errno = (int)control->refusal;
  return 1;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
  REAL(pwrite64);
  return refused(WRITE) ? -1 : real(fd, data, length, offset);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
  return pwrite64(fd, data, length, offset);
}

int ftruncate64(int fd, off64_t length) {
  REAL(ftruncate64);
  return refused(TRUNCATE) ? -1 : real(fd, length);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int fsync(int fd) {
  REAL(fsync);
  return refused(SYNC) ? -1 : real(fd);
}

int fdatasync(int fd) {
  REAL(fdatasync);
  return refused(SYNC) ? -1 : real(fd);
}
