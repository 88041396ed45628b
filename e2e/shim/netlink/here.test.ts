import { execFileSync, spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { eachBuild } from "../lab/harness.ts";
import {
  DUMP,
  linkMessage,
  message,
  RTM_DELLINK,
  RTM_GETLINK,
  RTM_NEWROUTE,
  readReply,
} from "../lab/netlink-messages.ts";

const dump = linkMessage(RTM_GETLINK, { flags: DUMP });

eachBuild("plexus netlink", (bench) => {
  /** Runs it with these messages, as plexusd does: without capabilities. */
  const ask = (messages: Uint8Array, netns = bench().netns()) => {
    const unprivileged = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    const words = [`--net=${netns}`, ...unprivileged, bench().shim, "netlink"];
    const { status, stdout, stderr } = spawnSync("nsenter", words, { input: messages });
    return { status, stdout, stderr: stderr.toString() };
  };

  test("prints what the kernel answers in the process's namespace, without any capability", () => {
    const netns = bench().netns();
    execFileSync("nsenter", [`--net=${netns}`, "ip", "link", "add", "v0", "type", "veth"]);
    const { status, stdout } = ask(dump, netns);
    expect(status).toBe(0);
    expect(readReply(stdout).names.toSorted()).toEqual(["lo", "v0", "veth0"]);
  });

  test.each<[string, Uint8Array]>([
    ["nothing", Buffer.of()],
    ["a part of a message", dump.subarray(0, 20)],
    ["a message that deletes a link", linkMessage(RTM_DELLINK, { name: "lo" })],
    ["a message that Plexus sends to change", message(RTM_NEWROUTE, { fixed: Buffer.alloc(12) })],
  ])("refuses %s", (_, messages) => {
    const { status, stdout, stderr } = ask(messages);
    expect({ status, stdout: stdout.length }).toEqual({ status: 1, stdout: 0 });
    expect(stderr).toContain("stdin has other netlink messages");
  });
});
