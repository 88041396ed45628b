import { type ChildProcess, spawn } from "node:child_process";
import { readlinkSync } from "node:fs";
import { rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { bridge } from "../../support/networks.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";
import { waitUntil } from "../../support/wait.ts";

/** A process with its own network namespace, which ends with it. */
async function container({ lab }: PlexusNode): Promise<ChildProcess> {
  const [file, ...args] = lab.command("unshare", "-n", "sleep", "600");
  const child = spawn(file, args, { stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const own = readlinkSync(`/proc/${lab.pid}/ns/net`);
  const others = [own, readlinkSync("/proc/self/ns/net")];
  await waitUntil("it has a namespace", () =>
    others.includes(readlinkSync(`/proc/${child.pid}/ns/net`)) ? undefined : true,
  );
  return child;
}

function pathOf({ pid }: ChildProcess): string {
  return `/proc/${pid}/ns/net`;
}

const kinds = ["process", "thread", "link"] as const;

/** A path that leads to the container's namespace, as people give it to runtimes. */
async function pathTo(
  { lab }: PlexusNode,
  child: ChildProcess,
  kind: (typeof kinds)[number],
): Promise<string> {
  if (kind === "process") return pathOf(child);
  if (kind === "thread") return `/proc/${child.pid}/task/${child.pid}/ns/net`;
  const link = join(lab.dir, "link");
  await rm(link, { force: true });
  await symlink(pathOf(child), link);
  return link;
}

test.beforeAll(({ node }) => {
  node.defaultNetwork = bridge("default", 88);
});

function callsOf(node: PlexusNode, containerId: string) {
  return (command: "ADD" | "DEL", CNI_NETNS: string) =>
    node.call({ command, containerId, conf: node.conf(), env: { CNI_NETNS } });
}

async function interfaces({ lab }: PlexusNode, { pid }: ChildProcess): Promise<string> {
  return lab.run("nsenter", "-t", String(pid), "--net", "ip", "-br", "link");
}

test.for(kinds)(
  "a DEL at the path of a %s detaches what the ADD has attached, before it ends and after",
  async (kind, { node }) => {
    const call = callsOf(node, `c-${kind}`);
    const child = await container(node);
    const path = await pathTo(node, child, kind);
    for (const end of ["before", "after"]) {
      expect(await call("ADD", path)).toMatchObject({ exitCode: 0 });
      expect(await interfaces(node, child)).toContain("eth0");
      if (end === "after") child.kill("SIGKILL");
      expect(await call("DEL", path)).toMatchObject({ exitCode: 0 });
      if (end === "before") expect(await interfaces(node, child)).not.toContain("eth0");
    }
    const leases = await node.lab.run("ls", "/var/lib/cni/networks/default");
    expect(leases.match(/^10\.88\./m)).toBeNull();
  },
);

test.for([
  ["process", "thread"],
  ["thread", "process"],
  ["process", "link"],
  ["link", "thread"],
] as const)(
  "a DEL at the path of a %s detaches what an ADD at that of a %s has attached",
  async ([deleted, added], { node }) => {
    const call = callsOf(node, `c-${deleted}-${added}`);
    const child = await container(node);
    expect(await call("ADD", await pathTo(node, child, added))).toMatchObject({ exitCode: 0 });
    expect(await interfaces(node, child)).toContain("eth0");
    expect(await call("DEL", await pathTo(node, child, deleted))).toMatchObject({ exitCode: 0 });
    expect(await interfaces(node, child)).not.toContain("eth0");
  },
);

test("a DEL at a link that leads to the process of another container leaves that", async ({
  node,
}) => {
  const [first, second] = [callsOf(node, "first"), callsOf(node, "second")];
  const [child, another] = [await container(node), await container(node)];
  const path = await pathTo(node, child, "link");
  expect(await first("ADD", path)).toMatchObject({ exitCode: 0 });
  child.kill("SIGKILL");
  expect(await second("ADD", pathOf(another))).toMatchObject({ exitCode: 0 });
  await pathTo(node, another, "link");
  expect(await first("DEL", path)).toMatchObject({ exitCode: 0 });
  expect(await interfaces(node, another)).toContain("eth0");
  expect(await second("DEL", pathOf(another))).toMatchObject({ exitCode: 0 });
});
