// SPDX-License-Identifier: Apache-2.0

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { list } from "../support/networks.ts";
import type { CallOutcome } from "../support/node/cni-call.ts";
import { ScriptedPlugins } from "../support/node/scripted-plugins.ts";
import { test as nodeTest } from "../support/node/test.ts";
import { repositoryRoot } from "../support/paths.ts";
import { specifiedError } from "./calls.ts";
import { cniVersions } from "./tools.ts";

/** One execution of a plugin by libcni, as it was recorded. */
interface Invocation {
  readonly command: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** Environment and input of every execution in e2e/vectors/libcni-invocations.txt, byte by byte. */
function readInvocations(): Invocation[] {
  const text = readFileSync(join(repositoryRoot, "e2e/vectors/libcni-invocations.txt"), "utf8");
  return [...text.matchAll(/^(CNI_.*) \n {3}stdin=(.*)$/gm)].map(([, line = "", stdin = ""]) => {
    const pairs = line
      .split(" ")
      .map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]);
    const env = Object.fromEntries(pairs) as Record<string, string>;
    return { command: env.CNI_COMMAND ?? "", env, stdin };
  });
}

const invocations = readInvocations();
const recorded = (command: string): Invocation[] =>
  invocations.filter((each) => each.command === command);

/** Replays an execution, if need be with another input: only the recorded paths are this machine's. */
type Replay = (invocation: Invocation, changes?: { stdin?: string }) => Promise<CallOutcome>;

const inner = list("inner", { type: "delegate", capabilities: { mac: true } });

const test = nodeTest
  .extend("daemonConfig", { scope: "file" }, { delegates: [{ ...inner, cniVersion: "1.1.0" }] })
  .extend("plugins", { scope: "file" }, ({ node }) => ScriptedPlugins.create(node.lab, "delegate"))
  .extend("replay", { scope: "file" }, async ({ node, plugins }): Promise<Replay> => {
    const netns = await node.lab.addNetns("replay");
    return ({ command, env, stdin }, changes = {}) => {
      const paths = {
        CNI_NETNS: env.CNI_NETNS === "/ns" ? netns : (env.CNI_NETNS ?? ""),
        CNI_PATH: env.CNI_PATH === "dummy" ? "dummy" : plugins.binDir,
      };
      const conf = changes.stdin ?? stdin;
      return node.call({ command: command as "ADD", conf, env: { ...env, ...paths } });
    };
  });
test.beforeEach(async ({ plugins }) => await plugins.clear());

/** The input without what ADD must not have when Plexus is the first of its list. */
function asFirst(stdin: string): string {
  const { prevResult: _, ...conf } = JSON.parse(stdin);
  return JSON.stringify(conf);
}

test("the vectors hold every command", () => {
  const count = (command: string): number => recorded(command).length;
  expect(["ADD", "CHECK", "DEL", "GC", "STATUS", "VERSION"].map(count)).toEqual([2, 2, 2, 6, 2, 1]);
});

test("libcni's ADD, CHECK and DEL as they are recorded [R-1.0-12] [R-0.4-33] [R-0.3-12]", async ({
  plugins,
  replay,
}) => {
  for (const [index, adding] of recorded("ADD").entries()) {
    const refused = specifiedError(await replay(adding));
    expect(refused.code, "its input has a prevResult").toBe(7);
    await plugins.clear();
    const added = await replay(adding, { stdin: asFirst(adding.stdin) });
    expect(added).toMatchObject({
      exitCode: 0,
      json: { cniVersion: "1.1.0", interfaces: [{ name: "eth0" }] },
    });
    const [execution] = await plugins.executions();
    const stdin = JSON.parse(execution?.stdin ?? "");
    expect(stdin.runtimeConfig).toEqual(JSON.parse(adding.stdin).runtimeConfig);
    expect(stdin).toMatchObject({ name: "inner", type: "delegate" });
    expect(execution?.cni.CNI_ARGS, "a value may hold =").toMatch(/K=V=1/);
    expect(execution?.cni.CNI_ARGS).toMatch(/IgnoreUnknown=1/);
    // The recorded CHECK has another plugin's result, as if a later one had changed ours.
    const checking = recorded("CHECK")[index] as Invocation;
    expect(await replay(checking)).toMatchObject({ exitCode: 0, stdout: "" });
    const [checked] = (await plugins.executions()).slice(-1);
    expect(JSON.parse(checked?.stdin ?? "").prevResult).toEqual(
      JSON.parse(checking.stdin).prevResult,
    );
    const deleted = await replay(recorded("DEL")[index] as Invocation);
    expect(deleted).toMatchObject({ exitCode: 0, stdout: "" });
    expect((await plugins.order()).at(-1)).toBe("DEL delegate/eth0");
  }
});

test.for(recorded("GC").map(({ stdin }, index) => ({ index, stdin })))(
  "libcni's GC #$index [R-1.1-30] [R-1.1-31]",
  async ({ index, stdin }, { plugins, replay }) => {
    const [adding] = recorded("ADD");
    await replay(adding as Invocation, { stdin: asFirst(adding?.stdin ?? "") });
    const keys = JSON.parse(stdin);
    const valid = keys["cni.dev/valid-attachments"];
    await plugins.clear();
    expect(await replay(recorded("GC")[index] as Invocation)).toMatchObject({
      exitCode: 0,
      stdout: "",
    });
    // Null means that nothing is in use; without the key the runtime leaves it open.
    const whatItDoes = valid === undefined ? [] : ["GC delegate/"];
    expect(await plugins.order()).toEqual([
      ...whatItDoes,
      ...(valid === null ? ["DEL delegate/eth0"] : []),
    ]);
    const [first] = await plugins.executions();
    const passed =
      first === undefined ? undefined : JSON.parse(first.stdin ?? "")["cni.dev/valid-attachments"];
    expect(passed).toEqual(valid === null ? [] : valid);
    await replay(recorded("DEL")[0] as Invocation);
  },
);

test("libcni's STATUS and VERSION [R-0.2-01] [R-1.1-20] [R-1.1-23]", async ({ replay }) => {
  for (const asking of recorded("STATUS")) {
    expect(await replay(asking)).toMatchObject({ exitCode: 0, stdout: "" });
  }
  for (const asking of recorded("VERSION")) {
    const { json } = await replay(asking);
    expect(json).toEqual({ cniVersion: "1.1.0", supportedVersions: cniVersions });
  }
});
