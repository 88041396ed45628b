import { expect, test } from "vitest";
import { HostGoneError } from "#engine/ports/host.ts";
import { type EngineLab, netns } from "#engine/testing/engine-lab.ts";
import { exited } from "#engine/testing/fake-plugins.ts";
import { podLab, web } from "#engine/testing/pod-lab.ts";
import type { JsonObject } from "#lib/json.ts";

/** A pod that asks for a network of a device with a user-space driver, and for one of `bridge` and `tuning`. */
function labWithDevice(result: JsonObject = onlyIn("net1")): EngineLab {
  const lab = podLab("vf,a", { vf: ["sriov"], a: ["bridge", "tuning"] });
  lab.plugins.script("sriov ADD", exited(0, result));
  return lab;
}

/** The result of a plugin that made no interface of these names. */
function onlyIn(...names: string[]): JsonObject {
  return { cniVersion: "1.0.0", interfaces: names.map((name) => ({ name, sandbox: netns })) };
}

function recorded(lab: EngineLab): (readonly string[] | undefined)[] {
  const { attachments } = lab.records.writes.at(-1)!.record;
  return attachments.map(({ userSpaceInterfaces }) => userSpaceInterfaces);
}

test("add() records the result's interfaces that the kernel does not have, and check() expects the others", async () => {
  const lab = labWithDevice();
  await lab.add(web);
  expect(recorded(lab)).toEqual([undefined, ["net1"], undefined]);
  expect(await lab.check(web)).toMatchObject({ exitCode: 0 });
  lab.kernel.removeLink(netns, "net2");
  expect((await lab.check(web)).json).toMatchObject({
    msg: "network default/a (net2): interface net2 is gone",
  });
});

test("check() expects an interface that the kernel had, even if its result names a user-space device", async () => {
  const device = { pciID: "0000:03:02.1", socketPath: "/run/x" };
  const interfaces = [{ name: "net1", sandbox: netns, ...device }];
  const lab = labWithDevice();
  lab.plugins.script("sriov ADD", (call) => {
    lab.plugins.work(call);
    return exited(0, { cniVersion: "1.0.0", interfaces });
  });
  await lab.add(web);
  expect(await lab.check(web)).toMatchObject({ exitCode: 0 });
  lab.kernel.removeLink(netns, "net1");
  expect((await lab.check(web)).json.msg).toContain("interface net1 is gone");
});

test("add() requests the list of interfaces while the last plugin is still running", async () => {
  const lab = labWithDevice();
  const host = lab.host();
  const [exec, netlink] = [host.exec.bind(host), host.netlink.bind(host)];
  let running = "";
  const listed: string[] = [];
  host.exec = (call) => {
    running = call.type;
    return exec(call).finally(() => {
      running = "";
    });
  };
  host.netlink = (path, messages) => {
    listed.push(running);
    return netlink(path, messages);
  };
  expect(await lab.add({ ...web, host })).toMatchObject({ exitCode: 0 });
  expect(listed).toEqual(["tuning"]);
});

test("add() succeeds if the kernel does not list the interfaces, and check() then expects all", async () => {
  const lab = labWithDevice();
  let isFirst = true;
  lab.kernel.refuse = () => {
    const refused = isFirst ? 1 : undefined;
    isFirst = false;
    return refused;
  };
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.logger.lines.findLast(({ level }) => level === "warn")).toMatchObject({
    message: expect.stringContaining("cannot list the sandbox"),
    fields: { netns, err: expect.any(Error) },
  });
  expect(recorded(lab)).toEqual([undefined, undefined, undefined]);
  expect((await lab.check(web)).json.msg).toContain("interface net1 is gone");
});

test("add() stops if the shim disconnects during the list, and keeps the record for DEL", async () => {
  const lab = labWithDevice();
  const host = lab.host();
  host.netlink = () => Promise.reject(new HostGoneError("gone"));
  await expect(lab.add({ ...web, host })).rejects.toThrow("gone");
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect(lab.plugins.log("DEL")).toEqual([]);
});
