/** How often each system call was made. */
export type SystemCalls = Record<string, number>;

/** What the C library does for memory and when a program starts: it differs with its version. */
const ofLibrary = new Set(
  [
    "brk",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "rseq",
    "prlimit64",
    "readlink",
  ].concat(["readlinkat", "getrandom", "mprotect", "mmap", "munmap", "mremap"]),
);

/**
 * The system calls of one shim and of its children until they are plugins.
 * @param log strace's lines: `42 execve("/path/of/plexus", …`; those of resumed calls are not counted
 */
export function systemCallsOf({ shim, plugins }: { shim: string; plugins: string }, log: string) {
  const calls: SystemCalls = {};
  const lines = [...log.matchAll(/^(\d+) +(\w+)\((.*)$/gm)];
  for (const [, own] of Map.groupBy(lines, ([, pid]) => pid)) {
    const executed = own.findIndex(([, , call]) => call === "execve");
    const [, , , program = ""] = own[executed] ?? [];
    const counted = program.startsWith(`"${shim}"`)
      ? own.slice(executed + 1)
      : own.slice(0, program.startsWith(`"${plugins}/`) ? executed + 1 : 0);
    for (const [, , call = ""] of counted) {
      if (!ofLibrary.has(call)) calls[call] = (calls[call] ?? 0) + 1;
    }
  }
  return calls;
}

/** Of each call the fewest: what more there was came from the moment. */
export function fewest(all: readonly SystemCalls[]): SystemCalls {
  const names = new Set(all.flatMap((each) => Object.keys(each)));
  const least = [...names].map(
    (name) => [name, Math.min(...all.map((each) => each[name] ?? 0))] as const,
  );
  return Object.fromEntries(
    least.filter(([, count]) => count > 0).sort(([a], [b]) => a.localeCompare(b)),
  );
}
