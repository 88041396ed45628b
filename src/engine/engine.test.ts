import { expect, onTestFinished, test, vi } from "vitest";
import { plexusdsListMark } from "#engine/config.ts";
import { readCall } from "#engine/ports/call.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import { EngineLab, expectError, network, sandbox, startedBefore } from "./testing/engine-lab.ts";
import { exited, failed } from "./testing/fake-plugins.ts";

/** A lab whose `ptp ADD` waits for a gate; `started` resolves when it is reached. */
function gatedLab(): EngineLab & { open(): void; started: Promise<void> } {
  const lab = new EngineLab();
  const gate = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  lab.plugins.script("ptp ADD", async (call) => {
    started.resolve();
    if (call.containerId === "c1") await gate.promise;
    return lab.plugins.work(call);
  });
  return Object.assign(lab, { open: gate.resolve, started: started.promise });
}

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 30; turn++) await new Promise(setImmediate);
};

const soon = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

test("handle() serves the calls of one container one at a time, in order of arrival [N-7.3] [R-1.0-20] [R-0.4-02]", async () => {
  const lab = gatedLab();
  const calls = [lab.add()];
  await lab.started;
  calls.push(lab.del(), lab.add(), lab.add({ env: { CNI_IFNAME: "eth1" } }));
  await soon();
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0"]);
  lab.open();
  expect((await Promise.all(calls)).map((answer) => answer.exitCode)).toEqual([0, 0, 0, 0]);
  const adds = ["ptp ADD eth0", "ptp ADD eth1"];
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0", "ptp DEL eth0", ...adds]);
});

test("handle() serves different sandboxes in parallel [R-1.0-21]", async () => {
  const lab = gatedLab();
  lab.kernel.addNamespace("/run/netns/c2");
  const waiting = lab.add();
  await lab.started;
  const env = { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2" };
  expect(await lab.add({ env })).toMatchObject({ exitCode: 0 });
  lab.open();
  expect(await waiting).toMatchObject({ exitCode: 0 });
});

test("handle() makes GC wait for calls in flight, and later calls wait for GC [R-1.1-33]", async () => {
  const lab = gatedLab();
  lab.conf = { delegates: [{ ...network("default-net", "ptp"), cniVersion: "1.1.0" }] };
  lab.kernel.addNamespace("/run/netns/c2");
  const added = lab.add();
  await lab.started;
  const collected = lab.gc(["c1"]);
  const later = lab.add({ env: { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2" } });
  await soon();
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0"]);
  lab.open();
  await Promise.all([added, collected, later]);
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0", "ptp GC", "ptp ADD eth0"]);
  expect(lab.records.keys).toEqual(["c1@eth0", "c2@eth0"]);
});

test("handle() ends a GC with code 11 while an agent works on a leftover, and lets others go on [R-1.1-33]", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const lab = new EngineLab({ leftoverDuty: "daemon" });
  await lab.add();
  lab.plugins.script("ptp DEL", failed(5, "busy"));
  await lab.del();
  const held = Promise.withResolvers<undefined>();
  lab.plugins.script("ptp DEL", () => held.promise);
  lab.advance(60_000);
  const call = readCall({ env: { CNI_COMMAND: "AGENT", CNI_PATH: "/opt/cni/bin" }, stdin: "" });
  const retried = lab.engine.retryLeftover(call, lab.host());
  await turns();
  const collected = lab.gc([]);
  await turns();
  lab.kernel.addNamespace("/run/netns/c2");
  const added = lab.add({ env: { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2" } });
  await turns();
  expect(lab.plugins.of("ptp", "ADD")).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(5000);
  expectError(await collected, 11, "garbage collection did not begin");
  expect(await added).toMatchObject({ exitCode: 0 });
  held.resolve(undefined);
  expect(await retried).toBe(true);
});

test("handle() releases the sandbox's lock after a failure and after the shim disconnected", async () => {
  const lab = new EngineLab();
  lab.plugins.script("ptp ADD", failed(7, "bad"));
  await lab.add();
  lab.plugins.unscript("ptp ADD");
  const host = lab.host();
  host.goesAt = 0;
  await expect(lab.add({ host })).rejects.toThrow("the shim has gone");
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
});

test.each([
  [
    "a conf of CNI 0.4.0",
    { conf: { cniVersion: "0.4.0", delegates: [] } },
    { cniVersion: "0.4.0", code: 7 },
  ],
  [
    "an unsupported CNI version",
    { conf: { cniVersion: "9.9.9" } },
    { cniVersion: "9.9.9", code: 1 },
  ],
  ["a conf that is not JSON", { stdin: "{" }, { cniVersion: "1.1.0", code: 6 }],
  ["an empty variable", { env: { CNI_NETNS: "" } }, { cniVersion: "1.0.0", code: 4 }],
  ["an unknown command", { env: { CNI_COMMAND: "PAUSE" } }, { cniVersion: "1.0.0", code: 4 }],
])("handle() prints an error for %s [R-1.1-43] [R-1.0-41]", async (_, options, expected) => {
  const answer = await new EngineLab().add(options);
  expect(answer).toMatchObject({ exitCode: 1, json: { ...expected, msg: expect.any(String) } });
});

test("handle() answers an unexpected error with code 999 and continues to serve", async () => {
  const lab = new EngineLab();
  lab.source.failure = new TypeError("x is undefined");
  const { json } = await lab.add({ pod: "default/web" });
  expect(json).toMatchObject({ code: 999, msg: expect.stringContaining("x is undefined") });
  expect(await lab.add()).toMatchObject({ exitCode: 0 });
});

test("handle() prints each phase on stderr with PLEXUS_TRACE=1", async () => {
  const lab = new EngineLab({ uptimeMs: 3_600_000 });
  lab.source.addPod({ name: "web" });
  const env = { PLEXUS_TRACE: "1", ...startedBefore(lab, 5) };
  const { stderr } = await lab.add({
    pod: "default/web",
    env: { ...env, CNI_ARGS: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web" },
  });
  const names = stderr
    .trimEnd()
    .split("\n")
    .map(
      (line) => /^plexus trace: (started|.*?(?= +at +[\d.]+ ms for +[\d.]+ ms$))/.exec(line)?.[1],
    );
  expect(names).toEqual([
    "started",
    "connect",
    "parse",
    "lock",
    "pod",
    "resolve",
    "record",
    "order ptp (default-net)",
    "delegate ptp (default-net)",
    "route",
    "record",
    "sync",
    "answer",
  ]);
});

test("handle() traces the phases of a failed call until it failed, and none without PLEXUS_TRACE=1", async () => {
  const lab = new EngineLab();
  lab.plugins.script("ptp ADD", failed(7, "bad"));
  const { stderr } = await lab.add({ env: { PLEXUS_TRACE: "1" } });
  expect(stderr).toContain("delegate ptp (default-net)");
  expect(stderr).not.toContain("status");
  expect((await lab.add({ env: { PLEXUS_TRACE: "0" } })).stderr).toBe("");
});

test("handle() passes on the stderr of delegates, whether they fail or not [R-1.0-30]", async () => {
  const lab = new EngineLab();
  lab.plugins.script("ptp ADD", (call) => ({
    ...lab.plugins.work(call),
    stderr: "warning: slow\n",
  }));
  expect((await lab.add()).stderr).toBe("warning: slow\n");
  lab.plugins.script("ptp DEL", exited(1, { code: 7, msg: "bad" }, "panic: lease\n"));
  expect((await lab.del()).stderr).toContain("panic: lease\n");
});

test("handle() passes on at most 64 KiB of stderr", async () => {
  const lab = new EngineLab({ conf: { delegates: [network("n", "ptp", "tuning")] } });
  for (const type of ["ptp", "tuning"]) {
    lab.plugins.script(`${type} ADD`, (call) => ({
      ...lab.plugins.work(call),
      stderr: "x".repeat(50_000),
    }));
  }
  expect((await lab.add()).stderr).toHaveLength(65_536);
});

test("handle() sets only CNI_* variables and leaves others, such as TRACEPARENT, to the shim's environment", async () => {
  const lab = new EngineLab();
  await lab.add({ env: { TRACEPARENT: "00-abc-def-01", LD_PRELOAD: "/x.so" } });
  const names = Object.keys(lab.plugins.calls[0]!.env);
  expect(names.filter((name) => !name.startsWith("CNI_"))).toEqual([]);
});

test("handle() measures calls and delegates by outcome", async () => {
  const lab = new EngineLab();
  await lab.add();
  lab.plugins.script("ptp DEL", failed(7, "bad"));
  await lab.del();
  expect(lab.measured).toEqual([
    "start ADD",
    "ptp ADD default-net ok",
    "end ADD 0",
    "start DEL",
    "ptp DEL default-net failed",
    "end DEL 7",
  ]);
});

test("handle() leaves it to its caller when the log line and the metrics of a call are written", async () => {
  const lab = new EngineLab();
  const env = { CNI_COMMAND: "GC", CNI_PATH: "/opt/cni/bin" };
  const call = readCall({ env, stdin: '{"cniVersion":"1.1.0","name":"n"}' });
  const { answer, log } = await lab.engine.handle(call, lab.host());
  expect([answer.exitCode, lab.logger.lines, lab.measured]).toEqual([0, [], ["start GC"]]);
  log();
  expect(lab.logger.lines).toMatchObject([{ message: "GC done" }]);
  expect(lab.measured.at(-1)).toBe("end GC 0");
});

test("handle() logs one line per call, with its sandbox and pod and never its configuration", async () => {
  const lab = new EngineLab({ conf: { delegates: [network("n", "ptp")], apiToken: "s3cret" } });
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: "" } });
  await lab.add({ pod: "default/web" });
  expect(lab.logger.lines).toEqual([
    {
      level: "info",
      message: "ADD done",
      fields: {
        ...sandbox,
        podNamespace: "default",
        podName: "web",
        command: "ADD",
        networks: ["n"],
        durationMs: expect.any(Number),
      },
    },
  ]);
  lab.plugins.script("ptp DEL", failed(7, "bad"));
  await lab.del({ pod: "default/web" });
  const line = lab.logger.lines.at(-1);
  expect(line).toMatchObject({ level: "error", fields: { code: 7, containerId: "c1" } });
  expect(line?.message).toMatch(/^DEL failed: .*bad/);
  expect(JSON.stringify(lab.logger.lines)).not.toContain("s3cret");
});

test("handle() reads the daemon's configuration again for each call", async () => {
  const lab = new EngineLab();
  lab.conf = { ...lab.conf, ...plexusdsListMark };
  await lab.add();
  lab.config = { delegates: [network("other", "bridge")] };
  await lab.add({ env: { CNI_CONTAINERID: "c2", CNI_IFNAME: "eth9" } });
  expect(lab.plugins.log("ADD")).toEqual(["ptp ADD eth0", "bridge ADD eth9"]);
});

test("handle() refuses to attach the shim's own network namespace, unless CNI_NETNS_OVERRIDE allows it", async () => {
  const env = { PLEXUS_NETNS: "own" };
  const lab = new EngineLab();
  expect((await lab.add({ env })).json).toMatchObject({ code: 8 });
  expect(lab.journal).toEqual([]);
  const allowed = await lab.add({ env: { ...env, CNI_NETNS_OVERRIDE: "1" } });
  expect(allowed).toMatchObject({ exitCode: 0 });
});

test("handle() measures and logs a call whose shim has gone, too", async () => {
  const lab = new EngineLab({ uptimeMs: 1_000_000 });
  const host = lab.host();
  host.goesAt = 0;
  await expect(lab.add({ host })).rejects.toThrow("the shim has gone");
  expect(lab.measured).toEqual(["start ADD", "end ADD 999"]);
  expect(lab.logger.lines).toMatchObject([{ level: "error", fields: { code: 999 } }]);
});

test("a call whose shim has gone says nothing of its pod", async () => {
  const lab = new EngineLab();
  const { uid } = lab.source.addPod({ name: "web" });
  const pod = `default/web/${uid}`;
  const host = lab.host();
  host.goesAt = 0;
  const commands = () =>
    lab.engine.history.of({ namespace: "default", name: "web", uid }).map((call) => call.command);
  await expect(lab.add({ pod, host })).rejects.toThrow("has gone");
  expect(commands()).toEqual([]);
  // It fails before it needs the shim.
  const early = await lab.add({ pod, host, env: { PLEXUS_NETNS: "own" } });
  expect([early.json, commands()]).toEqual([expect.objectContaining({ code: 8 }), []]);
  await lab.del({ pod });
  expect(commands()).toEqual(["DEL"]);
});

test("the history says when a call began", async () => {
  const lab = new EngineLab();
  const { uid } = lab.source.addPod({ name: "web" });
  const began = lab.now();
  lab.plugins.script("ptp ADD", () => {
    lab.advance(600_000);
    return failed(100, "no");
  });
  await lab.add({ pod: `default/web/${uid}` });
  expect(lab.engine.history.of({ namespace: "default", name: "web", uid })).toMatchObject([
    { command: "ADD", at: began, message: expect.stringContaining("no") },
  ]);
});

test("handle() logs how long a call took", async () => {
  const lab = new EngineLab({ uptimeMs: 1_000_000 });
  lab.plugins.script("ptp ADD", (call) => {
    lab.advance(5000);
    return lab.plugins.work(call);
  });
  await lab.add();
  expect(Math.floor(Number(lab.logger.lines[0]!.fields.durationMs) / 1000)).toBe(5);
});

test.each([
  ["an hour ago", 3_600_000, "3600001.000"],
  ["at an unknown time", Number.NaN, undefined],
])("handle() traces the time since a shim was started %s", async (_, waitedMs, connect) => {
  const lab = new EngineLab({ uptimeMs: 7_200_000 });
  const env = { PLEXUS_TRACE: "1", ...startedBefore(lab, waitedMs) };
  const { stderr } = await lab.add({ env });
  const took = /^plexus trace: connect .* for +([\d.-]+|NaN) ms$/m.exec(stderr)?.[1];
  expect([took, stderr.includes("started")]).toEqual([connect, connect !== undefined]);
});

test("handle() detaches a sandbox although the network configuration is invalid, and warns", async () => {
  const lab = new EngineLab();
  await lab.add();
  const conf = { delegates: "none" };
  expect(await lab.check({ conf })).toMatchObject({ exitCode: 1, json: { code: 7 } });
  expect(await lab.del({ conf })).toMatchObject({ exitCode: 0 });
  expect([lab.plugins.log("DEL"), lab.records.keys]).toEqual([["ptp DEL eth0"], []]);
  expect(lab.logger.lines.find(({ level }) => level === "warn")).toMatchObject({
    message: "DEL ignores an invalid network configuration",
    fields: { err: { code: 7 } },
  });
});

test("handle() answers a DEL without the words on which containerd forgets the pod, and other calls with them", async () => {
  const lab = new EngineLab();
  lab.records.failLoad = new Error("index not found");
  expect((await lab.check()).json).toMatchObject({ msg: expect.stringContaining("not found") });
  lab.records.failLoad = undefined;
  await lab.add();
  lab.records.failFinish = new Error("index not found");
  expect((await lab.del()).json).toMatchObject({ msg: expect.stringContaining("index absent") });
});

test("handle() retries no leftover while a garbage collection runs", async () => {
  const lab = new EngineLab({ leftoverDuty: "daemon" });
  lab.conf = { delegates: [{ ...network("default-net", "ptp"), cniVersion: "1.1.0" }] };
  await lab.add();
  lab.plugins.script("ptp DEL", failed(5, "busy"));
  await lab.del();
  lab.plugins.unscript("ptp DEL");
  lab.advance(60_000);
  const held = Promise.withResolvers<undefined>();
  lab.plugins.script("ptp GC", () => held.promise);
  const collected = lab.gc(["c1"]);
  await turns();
  lab.plugins.calls.length = 0;
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).not.toContain("ptp DEL eth0");
  held.resolve(undefined);
  expect(await collected).toMatchObject({ exitCode: 0 });
});

test("handle() lists the leftovers after a DEL that fails, and after others once a minute", async () => {
  const lab = new EngineLab({ leftoverDuty: "daemon" });
  const list = vi.spyOn(lab.records, "list");
  const listsAfter = async (afterMs: number): Promise<number> => {
    lab.advance(afterMs);
    list.mockClear();
    await lab.del();
    return list.mock.calls.length;
  };
  await listsAfter(0);
  expect([await listsAfter(50_000), await listsAfter(11_000)]).toEqual([0, 1]);
  await lab.add();
  lab.plugins.script("ptp DEL", failed(5, "busy"));
  expect(await listsAfter(1000)).toBe(1);
});
