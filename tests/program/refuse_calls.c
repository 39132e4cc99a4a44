// Runs a program to which the kernel refuses some calls, as a container's seccomp profile does:
//   refuse_calls ERRNO CALL[,CALL...] PROGRAM ARGUMENT...
// The error and the calls by number.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { kMostCalls = 16, kCannot = 125 };

static int cannot(const char *what) {
  fprintf(stderr, "refuse_calls: %s: %s\n", what, strerror(errno));
  return kCannot;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fputs("usage: refuse_calls ERRNO CALL[,CALL...] PROGRAM ARGUMENT...\n", stderr);
    return kCannot;
  }
  const unsigned refusal =
      SECCOMP_RET_ERRNO | ((unsigned)strtoul(argv[1], NULL, 10) & SECCOMP_RET_DATA);
  struct sock_filter filter[2 * kMostCalls + 2] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  unsigned short length = 1;
  char *calls = argv[2];
  do {
    const unsigned number = (unsigned)strtoul(calls, &calls, 10);
    filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refusal);
  } while (*calls++ == ',' && length < 2 * kMostCalls);
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return cannot("PR_SET_NO_NEW_PRIVS");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return cannot("PR_SET_SECCOMP");
  execvp(argv[3], argv + 3);
  return cannot(argv[3]);
}
