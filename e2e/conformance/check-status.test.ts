import { expect } from "vitest";
import { list } from "../support/networks.ts";
import { scriptedTest as test } from "../support/node/test.ts";
import { specifiedError } from "./calls.ts";

test("CHECK with checkDelegates: all runs the plugins of every network, except with disableCheck or a CNI version without CHECK [R-0.4-23] [R-0.4-24] [R-0.4-32] [R-1.0-25]", async ({
  node,
  plugins,
}) => {
  const conf = node.conf({ checkDelegates: "all" });
  await node.nad("unchecked", {
    ...list("net-unchecked", { type: "gamma" }),
    disableCheck: "true",
  });
  await node.nad("old", { cniVersion: "0.3.1", name: "net-old", type: "beta" });
  const checked = await node.newPod({ networks: "alpha,unchecked,old" });
  await checked.mustAdd();
  for (const name of ["eth0", "net1"]) await checked.addLink(name);
  await plugins.clear();
  expect(await checked.check({ conf })).toMatchObject({ exitCode: 0, stdout: "" });
  expect(await plugins.order()).toEqual([
    "CHECK default-first/eth0",
    "CHECK default-second/eth0",
    "CHECK alpha/net1",
  ]);
  for (const { stdin } of await plugins.executions())
    expect(JSON.parse(stdin ?? "")).toHaveProperty("prevResult.interfaces");
  await checked.mustDel();
});

test("CHECK verifies the recorded interfaces of a secondary network without running its plugins", async ({
  plugins,
  pod,
}) => {
  // A scripted plugin makes no interface, and CHECK looks for interfaces that the kernel had at the end of the ADD.
  const interfaces = [{ name: "kept", sandbox: `/run/netns/${pod.netns}` }];
  await plugins.script("beta", "ADD", {
    stdout: JSON.stringify({ cniVersion: "1.0.0", interfaces }),
  });
  await pod.addLink("kept");
  await pod.mustAdd();
  await plugins.clear();
  await pod.mustCheck();
  expect(await plugins.order()).toEqual(["CHECK default-first/eth0", "CHECK default-second/eth0"]);
  await pod.run("ip", "link", "del", "kept");
  expect(specifiedError(await pod.check()).msg).toMatch("beta (net2): interface kept is gone");
  await pod.mustDel();
  await plugins.unscript("beta", "ADD");
});

test("CHECK uses the runtime's prevResult if it differs from the recorded result [R-0.4-20] [R-0.4-30] [R-1.0-16]", async ({
  node,
  plugins,
}) => {
  const plain = await node.newPod();
  const interfaces = [
    { name: "kept", mac: "02:00:00:00:00:01", sandbox: `/run/netns/${plain.netns}` },
  ];
  const printed = {
    cniVersion: "1.0.0",
    interfaces,
    ips: [{ address: "10.9.0.5/24", interface: 0 }],
    own: "kept",
  };
  for (const type of ["default-first", "default-second"])
    await plugins.script(type, "ADD", { stdout: JSON.stringify(printed) });
  const { own: _, ...result } = printed;
  await plain.addLink("kept");
  await plain.run("ip", "address", "add", "10.9.0.5/24", "dev", "kept");
  expect(await plain.mustAdd()).toEqual(result);
  const given = async (prevResult?: object): Promise<unknown> => {
    await plugins.clear();
    await plain.mustCheck({ conf: node.conf(prevResult === undefined ? {} : { prevResult }) });
    return JSON.parse((await plugins.executions())[0]?.stdin ?? "").prevResult;
  };
  expect(await given(), "without prevResult: the recorded result").toEqual(printed);
  expect(await given(result), "unchanged prevResult: the recorded result").toEqual(printed);
  const changed = { ...result, ips: [{ address: "10.9.0.6/24", interface: 0 }] };
  const lost = specifiedError(await plain.check({ conf: node.conf({ prevResult: changed }) }));
  expect(lost.msg).toBe("network default (eth0): interface kept has lost its address 10.9.0.6/24");
  await plain.run("ip", "address", "flush", "dev", "kept");
  await plain.run("ip", "address", "add", "10.9.0.6/24", "dev", "kept");
  expect(await given(changed)).toEqual(changed);
  expect(specifiedError(await plain.check()).msg).toMatch("has lost its address 10.9.0.5/24");
  await plain.mustDel();
});
