import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { bridge } from "../../support/networks.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test } from "../../support/node/test.ts";

/** The path that both containers have, one after the other, as with `ip netns` and podman. */
const netns = "ns-web";

/** A bridge whose DEL fails as long as a file exists. */
async function installFlaky({ lab, cniPath }: PlexusNode): Promise<string> {
  const broken = join(lab.dir, "broken");
  const error = JSON.stringify({ cniVersion: "1.0.0", code: 11, msg: "the switch is busy" });
  const fail = `[ "$CNI_COMMAND" = DEL ] && [ -e ${broken} ] && echo '${error}' && exit 1`;
  const script = `#!/bin/sh\n${fail}\nexec ${cniPath.at(-1)}/bridge\n`;
  await writeFile(join(lab.dir, "flaky"), script, { mode: 0o755 });
  return broken;
}

test("a GC that retries a DEL keeps the interface of a container that has the path of its namespace now", async ({
  node,
}) => {
  const broken = await installFlaky(node);
  node.cniPath = [node.lab.dir, ...node.cniPath];
  node.defaultNetwork = bridge("default", 88, { type: "flaky" });
  node.confExtra = { cniVersion: "1.1.0" };
  const call = (command: "ADD" | "DEL" | "CHECK", containerId: string) =>
    node.call({ command, containerId, netns, conf: node.conf() });
  await node.lab.addNetns(netns);
  expect(await call("ADD", "first")).toMatchObject({ exitCode: 0 });
  await writeFile(broken, "");
  expect(await call("DEL", "first")).toMatchObject({ exitCode: 1 });
  await node.lab.deleteNetns(netns);
  await node.lab.addNetns(netns);
  expect(await call("ADD", "second")).toMatchObject({ exitCode: 0 });
  await node.lab.run("rm", broken);

  const valid = [{ containerID: "second", ifname: "eth0" }];
  const conf = node.conf({ "cni.dev/valid-attachments": valid });
  expect(await node.call({ command: "GC", conf })).toMatchObject({ exitCode: 0 });
  expect(await node.lab.run("ls", node.stateDir)).not.toContain("first@eth0.record");
  expect(await call("CHECK", "second")).toMatchObject({ exitCode: 0 });
  expect(await node.lab.run("ip", "-n", netns, "-br", "addr", "show", "eth0")).toContain("10.88.");
  expect(await call("DEL", "second")).toMatchObject({ exitCode: 0 });
});
