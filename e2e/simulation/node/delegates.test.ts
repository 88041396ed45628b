import { describe, expect, test } from "vitest";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { listAddresses, listLinks } from "#netlink/links.ts";
import { isDefault, listRoutes } from "#netlink/routes.ts";
import { Disk } from "../world/disk.ts";
import type { DelegateBehaviour, DiskFault } from "../world/faults.ts";
import { Kernel } from "../world/kernel.ts";
import { Random } from "../world/random.ts";
import { Process, Schedule } from "../world/schedule.ts";
import { enterWorld, type World } from "../world/world.ts";
import { startDelegate } from "./delegates.ts";

const netns = "/run/netns/c1";
const ipam = { subnet: "10.1.0.0/16", routes: [{ dst: "0.0.0.0/0" }] };
const durationUs = 10_000;

/** A world with nothing but delegates. */
class Lab {
  behaviour: DelegateBehaviour = "works";
  diskFault: (operation: string, path: string) => DiskFault = () => "none";
  /** Delegates that run. */
  running = 0;
  readonly children: Process[] = [];
  readonly world: World;

  constructor() {
    const random = new Random(1);
    const schedule = new Schedule(random);
    const disk = new Disk();
    const parts = { random, schedule, disk, kernel: new Kernel(random, disk) };
    const faults = {
      delegate: () => ({ behaviour: this.behaviour, durationUs }),
      disk: (operation: string, path: string) => this.diskFault(operation, path),
    };
    const observer = {
      delegateStarted: () => this.running++,
      delegateEnded: () => this.running--,
    };
    this.world = { ...parts, faults, observer, clockOffsetMs: 0, note() {} } as unknown as World;
    enterWorld(this.world);
    this.world.kernel.addNamespace(netns);
  }

  /** Runs a plugin until nothing more happens. @returns undefined when it has not ended by itself */
  async run(
    type: string,
    command: string,
    { conf = {}, env = {}, killAtUs }: { conf?: object; env?: object; killAtUs?: number } = {},
  ): Promise<DelegateOutcome | undefined> {
    const { schedule } = this.world;
    const group = new Process(type);
    const call: DelegateCall = {
      ...{ type, searchPath: [], timeoutMs: 1 },
      env: {
        ...{ CNI_COMMAND: command, CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0", CNI_NETNS: netns },
        ...env,
      },
      stdin: JSON.stringify({ cniVersion: "1.1.0", name: "pods", type, ...conf }),
    };
    let outcome: DelegateOutcome | undefined;
    const { ended } = startDelegate(call, group, (child) => this.children.push(child));
    void ended.then((result) => {
      outcome = result;
    });
    // The last event is of a process that is alive, so that the test can read the disk.
    schedule.at(60_000_000, () => undefined, schedule.outside);
    if (killAtUs !== undefined) schedule.at(killAtUs, () => schedule.kill(group), schedule.outside);
    await schedule.run(() => false);
    return outcome;
  }

  get attached(): string[] {
    const all = this.world.kernel.attached();
    return all.map(({ kind, plugin, containerId }) => `${plugin} ${kind} ${containerId}`);
  }
}

const printed = (outcome: DelegateOutcome | undefined): Record<string, unknown> =>
  JSON.parse(outcome?.stdout ?? "");
const passedOn = { cniVersion: "1.1.0", interfaces: [{ name: "eth0", sandbox: netns }] };
const portMappings = [{ hostPort: 80, containerPort: 80, protocol: "tcp" }];
const withPorts = { prevResult: passedOn, runtimeConfig: { portMappings } };
const ptpState = ["ptp link c1", "host-local lease c1"];

describe("startDelegate()", () => {
  test.each<[string, object, string[]]>([
    ["ptp", { ipam }, ptpState],
    ["bridge", { ipam }, ["bridge link c1", "host-local lease c1"]],
    ["macvlan", {}, ["macvlan link c1"]],
    ["host-device", { ipam }, ["host-device link c1", "host-local lease c1"]],
    ["portmap", withPorts, ["portmap host state c1"]],
    ["portmap", { prevResult: passedOn }, []],
    ["host-route", { prevResult: passedOn }, ["host-route host state c1"]],
    ["tuning", { prevResult: passedOn }, []],
    ["sbr", { prevResult: passedOn }, []],
  ])("%s with %j makes %j, checks it and removes it", async (type, conf, made) => {
    const lab = new Lab();
    const added = await lab.run(type, "ADD", { conf });
    expect(added).toMatchObject({ outcome: "exited", code: 0 });
    expect(lab.attached).toEqual(made);
    const prevResult = printed(added);
    // tuning looks for the interface, which no plugin has made here.
    const code = type === "tuning" ? 1 : 0;
    const checked = await lab.run(type, "CHECK", { conf: { ...conf, prevResult } });
    expect(checked).toMatchObject({ code });
    expect(await lab.run(type, "DEL", { conf })).toMatchObject({ code: 0 });
    expect(lab.attached).toEqual([]);
    expect(lab.running).toBe(0);
  });

  test("the kernel answers rtnetlink requests about what a plugin made", async () => {
    const lab = new Lab();
    const { kernel } = lab.world;
    await lab.run("bridge", "ADD", { conf: { ipam, runtimeConfig: { mac: "02:00:00:00:00:77" } } });
    const transport = async (path: string, bytes: Uint8Array): Promise<Uint8Array> =>
      kernel.netlink(path, bytes);
    expect(await listLinks(transport, netns)).toMatchObject([
      { name: "lo" },
      { name: "eth0", mac: "02:00:00:00:00:77" },
    ]);
    expect(await listAddresses(transport, netns)).toMatchObject([
      { ifIndex: 1 },
      { ifIndex: 2, family: 4, address: "10.1.0.2", prefix: 16 },
    ]);
    const routes = await listRoutes(transport, netns, 4);
    expect(routes.filter(isDefault)).toMatchObject([{ hops: [{ gateway: "10.1.0.1" }] }]);
    kernel.removeNamespace(netns);
    expect(() => kernel.netlink(netns, new Uint8Array())).toThrow("No such file");
  });

  test.each<[string, object, string]>([
    ["0.3.1", { version: "4", interface: 1 }, "interfaces"],
    ["1.0.0", { gateway: "10.1.0.1", interface: 1 }, "interfaces"],
  ])("ptp prints a result of version %s", async (cniVersion, ip, key) => {
    const result = printed(await new Lab().run("ptp", "ADD", { conf: { cniVersion, ipam } }));
    expect(result).toMatchObject({ cniVersion, ips: [{ address: "10.1.0.2/16", ...ip }] });
    expect(result).toHaveProperty(key);
  });

  test.each<[string, { conf?: object; env?: object }, RegExp]>([
    ["ptp", { conf: { ipam }, env: { CNI_NETNS: "/gone" } }, /failed to open netns/],
    ["bridge", { conf: { ipam }, env: { CNI_NETNS: "" } }, /variables missing/],
    ["ptp", { conf: { cniVersion: "9.0.0" } }, /incompatible/],
    ["ptp", {}, /no IP ranges/],
    ["tuning", {}, /chained/],
  ])("an ADD of %s with %j fails and leaves nothing", async (type, input, message) => {
    const lab = new Lab();
    const outcome = await lab.run(type, "ADD", input);
    expect(outcome).toMatchObject({ outcome: "exited", code: 1 });
    expect(printed(outcome).msg).toMatch(message);
    expect(lab.attached).toEqual([]);
  });

  test("a second ADD fails while the lease or the link is there", async () => {
    const lab = new Lab();
    await lab.run("ptp", "ADD", { conf: { ipam } });
    const add = { conf: { ipam } };
    expect(printed(await lab.run("ptp", "ADD", add)).msg).toMatch(/duplicate allocation/);
    const other = { conf: { ipam, name: "other" } };
    expect(printed(await lab.run("ptp", "ADD", other)).msg).toMatch(/already exists/);
    expect(lab.attached).toEqual(ptpState);
  });

  test.each<[string, number, string[]]>([
    ["ptp", 0, []],
    ["bridge", 0, []],
    ["sbr", 1, ptpState.slice(1)],
    ["host-device", 0, ptpState.slice(1)],
  ])("a DEL of %s without a namespace exits with %i", async (type, code, left) => {
    const lab = new Lab();
    await lab.run("ptp", "ADD", { conf: { ipam } });
    lab.world.kernel.removeNamespace(netns);
    expect(lab.attached).toEqual(ptpState.slice(1));
    expect(await lab.run(type, "DEL", { conf: { ipam }, env: { CNI_NETNS: "" } })).toMatchObject({
      code,
    });
    expect(lab.attached).toEqual(left);
  });

  test("GC keeps the leases of valid attachments only", async () => {
    const lab = new Lab();
    lab.world.kernel.addNamespace("/run/netns/c2");
    const second = { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2" };
    await lab.run("ptp", "ADD", { conf: { ipam } });
    await lab.run("ptp", "ADD", { conf: { ipam }, env: second });
    const valid = [{ containerID: "c2", ifname: "eth0" }];
    const conf = { ipam, "cni.dev/valid-attachments": valid };
    expect(await lab.run("ptp", "GC", { conf })).toMatchObject({ code: 0 });
    expect(lab.attached).toEqual(["ptp link c1", "ptp link c2", "host-local lease c2"]);
  });

  test.each<[DelegateBehaviour, object | undefined, string[]]>([
    ["fails before its work", { code: 1 }, []],
    ["fails between", { code: 1 }, ptpState.slice(1)],
    ["fails after its work", { code: 1 }, ptpState],
    ["dies before its work", { outcome: "signaled", code: 9 }, []],
    ["dies after its work", { outcome: "signaled", code: 9 }, ptpState],
    ["hangs before its work", undefined, []],
    ["hangs after its work", undefined, ptpState],
    ["says nothing", { code: 0, stdout: "" }, ptpState],
    ["says nonsense", { code: 0, stdout: expect.stringMatching(/^{/) }, ptpState],
    ["leaves a child", { code: 0, stdout: "" }, ptpState],
  ])("a delegate that %s ends with %j and leaves %j", async (behaviour, outcome, left) => {
    const lab = new Lab();
    lab.behaviour = behaviour;
    const ended = await lab.run("ptp", "ADD", { conf: { ipam } });
    if (outcome === undefined) expect(ended).toBeUndefined();
    else expect(ended).toMatchObject(outcome);
    expect(lab.attached).toEqual(left);
    expect(lab.children.map(({ isAlive }) => isAlive)).toEqual(
      behaviour === "leaves a child" ? [false] : [],
    );
    expect(lab.running).toBe(outcome === undefined ? 1 : 0);
  });

  test("a delegate that is killed does nothing more", async () => {
    const seen = new Set<string>();
    for (let killAtUs = 0; killAtUs < durationUs; killAtUs += 100) {
      const lab = new Lab();
      expect(await lab.run("ptp", "ADD", { conf: { ipam }, killAtUs })).toBeUndefined();
      expect(lab.running).toBe(0);
      seen.add(lab.attached.join());
    }
    expect([...seen]).toEqual(["", "host-local lease c1", ptpState.join()]);
  });

  test.each<[DiskFault, string, string[]]>([
    ["ENOSPC", "failed", []],
    // The file exists, without its owner.
    ["process killed", "killed", [""]],
  ])("%s while the lease is written: %s", async (fault, ending, left) => {
    const lab = new Lab();
    lab.diskFault = (operation) => (operation === "write" ? fault : "none");
    const outcome = await lab.run("ptp", "ADD", { conf: { ipam } });
    expect(outcome?.code).toBe(ending === "failed" ? 1 : undefined);
    const leases = lab.world.kernel.leases.all().map(({ containerId }) => containerId);
    expect(leases).toEqual(left);
  });

  test("leases survive a restart of the machine, and the rest does not", async () => {
    const lab = new Lab();
    await lab.run("ptp", "ADD", { conf: { ipam } });
    await lab.run("host-route", "ADD", { conf: { prevResult: passedOn } });
    const { bootId } = lab.world.kernel;
    lab.world.kernel = new Kernel(lab.world.random, lab.world.disk);
    expect(lab.world.kernel.bootId).not.toBe(bootId);
    expect(lab.attached).toEqual(["host-local lease c1"]);
    expect(await lab.run("ptp", "DEL", { conf: { ipam } })).toMatchObject({ code: 0 });
    expect(lab.attached).toEqual([]);
  });
});
