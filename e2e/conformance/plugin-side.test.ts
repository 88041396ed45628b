import { describe, expect } from "vitest";
import { errorScript } from "../support/node/scripted-plugins.ts";
import { scriptedTest } from "../support/node/test.ts";
import type { TestPod } from "../support/node/test-pod.ts";
import { specifiedError } from "./calls.ts";
import { cniVersions } from "./tools.ts";

/** In this file the pod has only the default network. */
const test = scriptedTest.extend("pod", ({ node }) => node.newPod());

/** A conf whose default network has one scripted plugin. */
function confOf(cniVersion: string, delegateVersion: string, keys: object = {}): object {
  const delegate = { cniVersion: delegateVersion, name: "default", type: "alpha", ...keys };
  return { cniVersion, name: "plexus", type: "plexus", delegates: [delegate] };
}

/** One attachment in the shape of each family of results. */
function resultOf(cniVersion: string): object {
  const routes = [{ dst: "0.0.0.0/0", gw: "10.9.0.1" }];
  if (cniVersion < "0.3.0") {
    return {
      cniVersion,
      ip4: { ip: "10.9.0.5/24", gateway: "10.9.0.1", routes },
      dns: { nameservers: ["10.9.0.53"] },
    };
  }
  const version = cniVersion < "1.0.0" ? { version: "4" } : {};
  return {
    cniVersion,
    interfaces: [{ name: "@IFNAME@", mac: "02:00:00:00:00:09", sandbox: "@NETNS@" }],
    ips: [{ ...version, interface: 0, address: "10.9.0.5/24", gateway: "10.9.0.1" }],
    routes,
    dns: { nameservers: ["10.9.0.53"] },
  };
}

/** The result that the caller must get, with the names in place. */
function expected(pod: TestPod, cniVersion: string, spoken: string): object {
  const filled = JSON.stringify(resultOf(cniVersion))
    .replaceAll("@IFNAME@", "eth0")
    .replaceAll("@NETNS@", `/run/netns/${pod.netns}`);
  const { interfaces, ips, ...rest } = JSON.parse(filled);
  if (interfaces === undefined) return rest;
  if (spoken >= "0.3.0") return { interfaces, ips, ...rest };
  return { ips: ips.map(({ interface: _, ...ip }: { interface: number }) => ip), ...rest };
}

test.for(cniVersions)(
  "a conf of version %s gets a result of version %s, whatever versions the delegate has and prints [R-0.1-08] [R-0.4-31] [R-1.0-40]",
  async (cniVersion, { plugins, pod }) => {
    for (const spoken of cniVersions) {
      await plugins.script("alpha", "ADD", { stdout: JSON.stringify(resultOf(spoken)) });
      for (const delegateVersion of new Set([spoken, "1.0.0"])) {
        const conf = confOf(cniVersion, delegateVersion);
        const result = await pod.mustAdd({ conf });
        expect(result, `${delegateVersion}, spoken ${spoken}`).toEqual(
          expected(pod, cniVersion, spoken),
        );
        await pod.mustDel({ conf });
      }
    }
  },
);

test("ADD fails with code 1 and detaches if the caller's CNI version cannot represent the result [R-0.1-10] [R-0.4-36]", async ({
  plugins,
  pod,
}) => {
  const conf = confOf("0.2.0", "1.0.0");
  const error = specifiedError(await pod.add({ conf }));
  expect(error).toMatchObject({
    cniVersion: "0.2.0",
    code: 1,
    msg: expect.stringContaining("no valid IP addresses"),
  });
  expect(await plugins.order()).toEqual(["ADD alpha/eth0", "DEL alpha/eth0"]);
});

describe("a delegate's error", () => {
  test.for([0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51, 99, 100, 101, 999, 4_000_000_000])(
    "keeps its code %d, message and details in ADD, CHECK and DEL [R-0.1-09] [R-0.1-10] [R-0.4-23] [R-1.0-11] [R-1.0-31] [R-1.0-41]",
    async (code, { plugins, pod }) => {
      const conf = confOf("1.0.0", "1.0.0");
      const script = errorScript(code, "the sky fell", "all of it");
      await plugins.script("alpha", "ADD", script);
      const msg = expect.stringContaining("the sky fell");
      const wanted = { cniVersion: "1.0.0", code, msg, details: "all of it" };
      expect(specifiedError(await pod.add({ conf }))).toEqual(wanted);
      await plugins.unscript("alpha", "ADD");
      await pod.mustAdd({ conf });
      // CHECK asks for the interface first, which a scripted plugin does not make.
      await pod.addLink("eth0");
      await pod.mustCheck({ conf });
      await plugins.script("alpha", "CHECK", script);
      expect(specifiedError(await pod.check({ conf }))).toEqual(wanted);
      await plugins.script("alpha", "DEL", script);
      expect(specifiedError(await pod.del({ conf }))).toEqual(wanted);
      await plugins.unscript("alpha", "DEL");
      await pod.mustDel({ conf });
    },
  );
});

test("stderr of a successful delegate reaches the shim's stderr; stdout holds only the result [R-0.1-11] [R-1.0-30]", async ({
  plugins,
  pod,
}) => {
  await plugins.script("alpha", "ADD", { stderr: "a word for the log\n" });
  const { json, stderr } = await pod.add({ conf: confOf("1.0.0", "1.0.0") });
  expect(stderr).toBe("a word for the log\n");
  expect(json).toMatchObject({ cniVersion: "1.0.0" });
  await pod.mustDel();
});

test("unknown args and keys in the conf are ignored and not passed to delegates [R-0.2-04] [R-0.4-33] [R-0.2-06]", async ({
  plugins,
  pod,
}) => {
  const conf = {
    ...confOf("1.0.0", "1.0.0"),
    args: { cni: { odd: [1] } },
    "example.com/key": { a: 1 },
    junk: null,
  };
  await pod.mustAdd({ conf });
  const [execution] = await plugins.executions();
  expect(JSON.parse(execution?.stdin ?? "")).toEqual({
    cniVersion: "1.0.0",
    name: "default",
    type: "alpha",
  });
  await pod.mustDel({ conf: { ...conf, junk: 1 } });
});

test("the result has only the default network's addresses and routes [R-0.4-34]", async ({
  plugins,
  pod,
}) => {
  await pod.annotate({ networks: "beta" });
  const secondary = { ...resultOf("1.0.0"), routes: [{ dst: "10.7.0.0/16" }] };
  await plugins.script("beta", "ADD", { stdout: JSON.stringify(secondary) });
  await plugins.script("alpha", "ADD", { stdout: JSON.stringify(resultOf("1.0.0")) });
  const result = await pod.mustAdd({ conf: confOf("1.0.0", "1.0.0") });
  expect(result).toEqual(expected(pod, "1.0.0", "1.0.0"));
  await pod.mustDel();
});
