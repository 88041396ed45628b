import { expect, test } from "vitest";
import { FakeConfFiles } from "#engine/testing/fake-files.ts";
import { auxiliaryProblems } from "./auxiliary-chain.ts";

const primary = { clusterNetwork: "/etc/cni/net.d/10-a.conflist" };
const good = { name: "x", type: "tuning" };
const meta = { name: "x", type: "multus" };

test.each([
  { what: "nothing of a chain that can be used", file: good, daemon: primary },
  { what: "an empty file", file: "", daemon: primary, says: "/vendor/10-x.conf: " },
  {
    what: "a half-written file",
    file: '{"type":',
    conf: { ...primary, writtenBy: "plexusd" },
    says: "/vendor/10-x.conf: ",
  },
  { what: "nothing of a chain that fails every ADD", file: meta, daemon: primary },
  { what: "nothing if no ADD finds the directory", file: "", daemon: { clusterNetwork: "net" } },
])("auxiliaryProblems() names $what", async ({ file, daemon = {}, conf = {}, says }) => {
  const files = new FakeConfFiles();
  files.write("/etc/cni/net.d/vendor/10-x.conf", file);
  const config = { ...daemon, auxiliaryCNIChainName: "vendor" };
  const found = await auxiliaryProblems(config, conf, files);
  expect(found).toEqual(says === undefined ? [] : [expect.stringContaining(says)]);
});
