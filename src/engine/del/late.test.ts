import { expect, test } from "vitest";
import { EngineLab, netns, network, startedBefore } from "#engine/testing/engine-lab.ts";
import { exited, failed, interfaceResult } from "#engine/testing/fake-plugins.ts";

/** A DEL that the engine gets 10 s after the ADD of the record with its name began. */
interface Scene {
  readonly what: string;
  /** How long before the engine got it its shim had started. Absent = unknown. */
  readonly waitedMs?: number;
  /** By how much the date was set since the ADD. */
  readonly steppedMs?: number;
  /** The boot ID that the engine reads now. */
  readonly bootId?: string;
  readonly isInterrupted?: true;
  /** By how much the clock of the process that made the record is ahead. */
  readonly aheadMs?: number;
  readonly isLate?: true;
}

test.each<Scene>([
  { what: "was called before the ADD", waitedMs: 60_000, isLate: true },
  { what: "was called after the ADD", waitedMs: 1000 },
  { what: "was called after it, and the date was set back", waitedMs: 0, steppedMs: -60_000 },
  { what: "was called after it, and the date was set forward", waitedMs: 9000, steppedMs: 60_000 },
  {
    what: "was called before it, and the date was set back",
    waitedMs: 60_000,
    steppedMs: -90_000,
    isLate: true,
  },
  {
    what: "was called before it, and the date was set forward",
    waitedMs: 60_000,
    steppedMs: 90_000,
    isLate: true,
  },
  { what: "was called after it by another clock, which is ahead", waitedMs: 0, aheadMs: 60_000 },
  { what: "does not say when it was called" },
  { what: "reads another boot ID", waitedMs: 60_000, bootId: "another" },
  { what: "reads no boot ID", waitedMs: 60_000, bootId: "" },
  { what: "was called before an ADD that did not end", waitedMs: 60_000, isInterrupted: true },
])("a DEL that $what is late: $isLate", async (scene) => {
  const { waitedMs, steppedMs = 0, bootId, isInterrupted, aheadMs = 0, isLate = false } = scene;
  const type = isInterrupted ? "host-device" : "ptp";
  const conf = { delegates: [network("default-net", type)] };
  const lab = new EngineLab({ conf, uptimeMs: 3_600_000 });
  if (bootId === "") lab.bootId = "";
  if (isInterrupted)
    for (const call of ["host-device ADD", "host-device DEL"])
      lab.plugins.script(call, failed(11, "busy"));
  expect(await lab.add()).toMatchObject({ exitCode: isInterrupted ? 1 : 0 });
  lab.plugins.unscript("host-device DEL");
  lab.records.change(({ clockMs }) => ({ clockMs: clockMs + aheadMs }));
  lab.plugins.calls.length = 0;
  lab.advance(10_000);
  lab.stepClock(steppedMs);
  if (bootId !== undefined) lab.bootId = bootId;
  const env = waitedMs === undefined ? {} : startedBefore(lab, waitedMs);
  expect(await lab.del({ env })).toMatchObject({ exitCode: 0, stdout: "" });
  expect(lab.plugins.log()).toEqual(isLate ? [] : [`${type} DEL eth0`]);
  expect(lab.records.keys).toEqual(isLate ? ["c1@eth0"] : []);
});

const other = "/run/netns/other";
const mac = "02:00:00:00:00:0a";

/** A DEL of a container that is attached, at another path than the ADD's. */
interface Elsewhere {
  readonly what: string;
  /** @default {@link other} */
  readonly path?: string;
  /** The address in the ADD's result. @default {@link mac} */
  readonly recorded?: string;
  readonly change?: (lab: EngineLab) => unknown;
  readonly isLate?: true;
}

test.each<Elsewhere>([
  { what: "another namespace", isLate: true },
  { what: "a path where nothing is", path: "/run/netns/gone", isLate: true },
  { what: "no path", path: "" },
  {
    what: "the same namespace by another path",
    path: "/run/netns/link",
    change: ({ kernel }) => kernel.linkNamespace(netns, "/run/netns/link"),
  },
  {
    what: "another namespace, and its own is gone",
    change: ({ kernel }) => kernel.removeNamespace(netns),
  },
  {
    what: "another namespace, and its own has no interface",
    change: ({ kernel }) => kernel.removeLink(netns, "eth0"),
  },
  {
    what: "another namespace, and its own has another interface of that name",
    change: ({ kernel }) => kernel.setMac(netns, "eth0", "02:00:00:00:00:0b"),
  },
  { what: "another namespace, and its address is unknown", recorded: "" },
  {
    what: "another namespace, and another container may have its own",
    change: (lab) => {
      lab.kernel.removeLink(netns, "eth0");
      return lab.add({ env: { CNI_CONTAINERID: "c2" } });
    },
  },
])("a DEL at $what is late: $isLate", async (scene) => {
  const { path = other, recorded = mac, change, isLate = false } = scene;
  const lab = new EngineLab();
  lab.kernel.addNamespace(other);
  lab.plugins.script("ptp ADD", (call) => {
    lab.plugins.work(call);
    lab.kernel.setMac(call.netns, "eth0", mac);
    return exited(0, interfaceResult(call, "10.0.0.1/24", recorded));
  });
  expect(await lab.add()).toMatchObject({ exitCode: 0 });
  await change?.(lab);
  lab.plugins.calls.length = 0;
  const env = { CNI_NETNS: path, PLEXUS_NETNS: path === "/run/netns/gone" ? "gone" : "ok" };
  expect(await lab.del({ env })).toMatchObject({ exitCode: 0, stdout: "" });
  expect(lab.plugins.log()).toEqual(isLate ? [] : ["ptp DEL eth0"]);
  expect(lab.records.keys.includes("c1@eth0")).toBe(isLate);
});
