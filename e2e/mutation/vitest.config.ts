import { defineConfig } from "vitest/config";
import { keepThreads } from "./kept-thread.ts";
import { QuickestFirst } from "./quickest-first.ts";

/** The unit tests of the mutated folders and their neighbours, for Stryker. */
export default defineConfig({
  plugins: [{ name: "kept-thread", configureVitest: ({ project }) => keepThreads(project) }],
  test: {
    include: ["src/{cni,npwg,engine,records,netlink,lib}/**/*.test.ts"],
    setupFiles: ["e2e/mutation/setup.ts"],
    isolate: false,
    sequence: { sequencer: QuickestFirst },
    // A mutant that hangs is found, but not one on a busy machine.
    testTimeout: 60_000,
  },
});
