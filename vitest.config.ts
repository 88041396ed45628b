import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { flavour } from "./e2e/support/flavour.ts";

/** CI adds the runs' figures up from these files (scripts/ci-summary.ts). */
const reports = process.env.PLEXUS_TEST_REPORTS;

/** One project per kind of test: `unit` needs nothing, the others need root and real parts. */
export default defineConfig({
  test: {
    globalSetup: ["e2e/support/require-node.ts"],
    // Vitest leaves one processor unused, but the tests wait more than they compute.
    maxWorkers: "100%",
    allowOnly: false,
    // A file may have only tests that need plexusd.
    passWithNoTests: flavour === "standalone",
    ...(reports === undefined
      ? {}
      : {
          reporters: ["default", "json"],
          outputFile: { json: join(reports, `${process.pid}.json`) },
        }),
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: [
            "{src,bench,scripts,e2e/simulation,e2e/mutation}/**/*.test.ts",
            "e2e/fuzz/*.test.ts",
          ],
          exclude: ["e2e/simulation/mutations.test.ts"],
          // Some start processes and fsync: the limit is for what hangs, not for a busy machine.
          testTimeout: 30_000,
        },
      },
      {
        extends: true,
        test: { name: "shim", include: ["e2e/shim/**/*.test.ts"], testTimeout: 60_000 },
      },
      {
        extends: true,
        test: {
          name: "netns",
          include: ["e2e/netns/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: "chaos",
          include: ["e2e/{chaos,powerloss,soak}/**/*.test.ts", "e2e/simulation/mutations.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 1_200_000,
        },
      },
      {
        extends: true,
        test: {
          name: "release",
          include: ["e2e/{release,monitoring}/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 1_200_000,
        },
      },
      {
        extends: true,
        test: {
          name: "admission",
          include: ["e2e/admission/**/*.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 600_000,
        },
      },
      {
        extends: true,
        test: {
          name: "conformance",
          include: ["e2e/{conformance,npwg-results}/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 600_000,
        },
      },
      {
        extends: true,
        test: {
          name: "crio",
          include: ["e2e/crio/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 600_000,
          fileParallelism: false,
        },
      },
      {
        extends: true,
        test: {
          name: "clients",
          include: ["e2e/clients/**/*.test.ts"],
          // Dozens of containers, then half a minute until the first leftover is due.
          testTimeout: 420_000,
          hookTimeout: 600_000,
          fileParallelism: false,
        },
      },
      {
        extends: true,
        test: {
          name: "docker",
          include: ["e2e/docker/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 600_000,
          fileParallelism: false,
        },
      },
      {
        extends: true,
        test: {
          name: "sriov",
          include: ["e2e/sriov/**/*.test.ts"],
          setupFiles: ["e2e/sriov/require-guest.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
      {
        extends: true,
        test: {
          name: "cluster",
          include: ["e2e/cluster/**/*.test.ts"],
          testTimeout: 900_000,
          hookTimeout: 2_400_000,
          fileParallelism: false,
        },
      },
      {
        extends: true,
        test: {
          name: "primary",
          include: ["e2e/primaries/**/*.test.ts"],
          testTimeout: 900_000,
          hookTimeout: 2_400_000,
        },
      },
      {
        extends: true,
        test: {
          name: "suites",
          include: ["e2e/suites/**/*.test.ts"],
          testTimeout: 900_000,
          hookTimeout: 2_400_000,
        },
      },
    ],
  },
});
