import { afterEach, inject, vi } from "vitest";

const worker: { foundMutant?: unknown } = Object(globalThis);
const mutant: unknown = inject("activeMutant" as never);

// Threads cannot set the umask, which one test varies; Stryker runs tests in threads.
process.umask = () => 0o022;
// The mutant before may have ended with a fake clock.
vi.useRealTimers();

// One failure finds a mutant, but vitest would still load the other test files.
if (mutant !== undefined && worker.foundMutant === mutant) throw new Error("the mutant is found");
afterEach(({ task }) => {
  if (task.result?.state === "fail") worker.foundMutant = mutant;
});
