import { defineConfig } from "vitest/config";

/** One project per kind of test: `unit` needs nothing, the e2e kinds need root and real parts. */
export default defineConfig({
  test: {
    globalSetup: ["e2e/support/require-node.ts"],
    projects: [
      { extends: true, test: { name: "unit", include: ["src/**/*.test.ts"] } },
      {
        extends: true,
        test: { name: "netns", include: ["e2e/netns/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000 },
      },
      {
        extends: true,
        test: {
          name: "cluster",
          include: ["e2e/cluster/**/*.test.ts"],
          testTimeout: 300_000,
          hookTimeout: 900_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
