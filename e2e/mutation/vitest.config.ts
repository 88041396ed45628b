import { defineConfig } from "vitest/config";

/** The unit tests of the mutated folders and their neighbours, for Stryker. */
export default defineConfig({
  test: {
    include: ["src/{cni,npwg,engine,records,netlink,lib}/**/*.test.ts"],
    setupFiles: ["e2e/mutation/worker-threads.ts"],
    testTimeout: 30_000,
  },
});
