// SPDX-License-Identifier: Apache-2.0

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { root } from "#daemon/config/testing/manifests.ts";
import { releaseTool } from "./tools.ts";

interface Job {
  readonly permissions?: object;
  readonly "timeout-minutes"?: number;
  readonly uses?: string;
}

interface Workflow {
  readonly permissions: object;
  readonly jobs: Readonly<Record<string, Job>>;
}

const folder = join(root, ".github/workflows");
const files = await readdir(folder);

test("actionlint finds nothing in the workflows", async () => {
  const paths = files.map((name) => join(folder, name));
  const { stdout, exitCode } = await execa(await releaseTool("actionlint"), paths, {
    reject: false,
  });
  expect([exitCode, stdout]).toEqual([0, ""]);
}, 1_200_000);

test.each(files)(
  "%s pins every action by its commit, and says of which release that is",
  async (name) => {
    const text = await readFile(join(folder, name), "utf8");
    const actions = [...text.matchAll(/uses: (.*)/g)].flatMap(([, action]) => action ?? []);
    const others = actions.filter((action) => !action.startsWith("./"));
    expect(others.length).toBeGreaterThan(0);
    for (const action of others)
      expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  },
);

test.each(files)(
  "%s gives its jobs no right that they do not name, and a limit of time",
  async (name) => {
    const { permissions, jobs } = parse(await readFile(join(folder, name), "utf8")) as Workflow;
    expect(permissions).toEqual({ contents: "read" });
    for (const job of Object.values(jobs)) {
      if (job.uses === undefined) expect(job["timeout-minutes"]).toBeGreaterThan(0);
    }
  },
);
