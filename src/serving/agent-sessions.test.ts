import { EventEmitter } from "node:events";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { readCall } from "#engine/ports/call.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { EngineLab } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { ShimSession } from "#host/shim-session.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { encodeFrame, FrameReader, FrameType } from "#protocol/frame.ts";
import { encodeRequest } from "#protocol/messages.ts";
import { AgentSessions } from "./agent-sessions.ts";

const sandbox = { containerId: "c1", ifName: "eth0", netns: "/run/netns/c1" };
const env = { CNI_COMMAND: "AGENT", CNI_PATH: "/opt/cni/bin:/b", PLEXUS_AGENT: "attach" };

let lab: EngineLab;
let agents: AgentSessions;
let stopping: AbortController;
const served: Promise<void>[] = [];

beforeEach(() => {
  lab = new EngineLab();
  agents = new AgentSessions();
  stopping = new AbortController();
});

afterEach(async () => {
  stopping.abort();
  await Promise.allSettled(served.splice(0));
});

const answers: Readonly<Record<number, readonly string[]>> = {
  [FrameType.Sandbox]: ["ok", "", "lo/eth0/"],
  [FrameType.Exec]: ["exited", "0", "", "", "", "1"],
  [FrameType.Netlink]: ["2", "", "no such namespace", "open"],
};

/** The agent's end of a session: answers each order at once, unless `answer` is undefined. */
class Agent extends EventEmitter {
  readonly orders: (readonly string[])[] = [];
  readonly #reader = new FrameReader();
  readonly #answer: ((type: number) => readonly string[] | undefined) | undefined;

  constructor(answer = (type: number): readonly string[] | undefined => answers[type]) {
    super();
    this.#answer = answer;
  }

  write(bytes: Uint8Array): void {
    for (const { type, fields } of this.#reader.push(bytes)) {
      this.orders.push([String(type), ...fields.map(String)]);
      const answer = this.#answer?.(type);
      if (answer !== undefined) {
        queueMicrotask(() => this.emit("data", encodeFrame(type + 1, answer)));
      }
    }
  }

  end(bytes: Uint8Array, callback: () => void): void {
    this.write(bytes);
    callback();
    this.emit("close");
  }

  destroy(): void {
    this.emit("close");
  }
}

/** Connects a session of an agent. */
function connected(answer?: (type: number) => readonly string[] | undefined): Agent {
  const agent = new Agent(answer);
  const session = new ShimSession(agent);
  agent.emit("data", encodeRequest({ env, stdin: "" }));
  const call = readCall({ env, stdin: "" });
  served.push(agents.serve(lab.engine, call, { session, stopping: stopping.signal }));
  return agent;
}

const done = [String(FrameType.Done), "0", "", ""];
const ordered = [String(FrameType.Sandbox), ...Object.values(sandbox)];

test("open() locks a sandbox through the idle session, whose task ends with the disposal", async () => {
  const agent = connected();
  const host = await agents.open(sandbox);
  expect([...host.links]).toEqual(["lo", "eth0"]);
  expect(host.path).toEqual(["/opt/cni/bin", "/b"]);
  expect(agent.orders).toEqual([ordered]);
  await host[Symbol.asyncDispose]();
  await served[0];
  expect(agent.orders).toEqual([ordered, done]);
});

test("find() asks through the idle session, which then ends, and not without an agent", async () => {
  expect(await agents.find(["/opt/cni/bin"], ["ptp", "bridge"])).toBeUndefined();
  const agent = connected(() => ["found", "", "refused", "a reason"]);
  expect(await agents.find(["/opt/cni/bin"], ["ptp", "bridge"])).toMatchObject([
    { outcome: "found" },
    { outcome: "refused", message: "a reason" },
  ]);
  await served[0];
  expect(agent.orders).toEqual([[String(FrameType.Find), "/opt/cni/bin", "ptp", "bridge"], done]);
});

test("open() tells the agent that a sandbox is only read", async () => {
  const agent = connected();
  await using _host = await agents.open({ ...sandbox, isInspection: true });
  expect(agent.orders).toEqual([[...ordered, "inspect"]]);
});

/** Within half a minute, an agent that restarts is no reason to tell people to install one. */
async function untilNoAgentIsExpected(): Promise<void> {
  for (let ms = 0; ms < 30_000; ms += 2000) {
    expect(agents.isAvailable()).toBe(true);
    const opening = expect(agents.open(sandbox)).rejects.toMatchObject({
      ...{ why: "busy", message: "plexus agent is restarting, or plexusd is" },
    });
    await vi.advanceTimersByTimeAsync(2000);
    await opening;
  }
  expect(agents.isAvailable()).toBe(false);
  await expect(agents.open(sandbox)).rejects.toMatchObject({ why: "noAgent" });
}

test("open() waits for an agent that may restart with plexusd, and then rejects", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  agents = new AgentSessions();
  const listener = vi.fn();
  agents.onAvailable(listener);
  await untilNoAgentIsExpected();
  connected();
  connected();
  expect(listener).toHaveBeenCalledTimes(1);
});

test.each([
  ["busy", { why: "busy", message: "a reason" }],
  ["gone", { why: "gone", message: "a reason" }],
  ["refused", { code: 5, message: "a reason" }],
])("open() rejects when the agent answers '%s', and the session ends", async (...row) => {
  const [outcome, error] = row;
  const agent = connected(() => [outcome, "a reason", ""]);
  await expect(agents.open(sandbox)).rejects.toMatchObject(error);
  await served[0];
  expect(agent.orders).toEqual([ordered, done]);
});

test("open() rejects when the agent disconnects, which is expected to connect again", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const agent = connected(() => undefined);
  const listener = vi.fn();
  agents.onAvailable(listener);
  await vi.advanceTimersByTimeAsync(3_600_000);
  const opening = agents.open(sandbox);
  await vi.advanceTimersByTimeAsync(0);
  expect(agent.orders).toEqual([ordered]);
  agent.destroy();
  await expect(opening).rejects.toThrow(HostGoneError);
  await served[0];
  await untilNoAgentIsExpected();
  connected();
  expect(listener).toHaveBeenCalledTimes(1);
});

test("an agent that restarts without a task is expected, too", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const agent = connected();
  await vi.advanceTimersByTimeAsync(3_600_000);
  agent.destroy();
  await served[0];
  await untilNoAgentIsExpected();
});

test("open() waits for a session while all have a task, in the order of the calls", async () => {
  connected();
  await using _first = await agents.open(sandbox);
  const opened: string[] = [];
  const others = ["c2", "c3"].map(async (containerId) => {
    await using _host = await agents.open({ ...sandbox, containerId });
    opened.push(containerId);
  });
  const agents23 = [connected(), connected()];
  await Promise.all(others);
  expect(opened).toEqual(["c2", "c3"]);
  expect(agents23.map(({ orders }) => orders[0]?.[1])).toEqual(["c2", "c3"]);
});

test("an idle session that disconnects is not used", async () => {
  const [gone, other] = [connected(), connected()];
  gone.destroy();
  await served[0];
  await using _host = await agents.open(sandbox);
  expect([gone.orders.length, other.orders.length]).toEqual([0, 1]);
});

test("one session tears all leftovers down, and ends; others stay idle", async () => {
  for (const containerId of ["c1", "c2"]) {
    const netns = `/run/netns/${containerId}`;
    lab.kernel.addNamespace(netns);
    const env = { CNI_CONTAINERID: containerId, CNI_NETNS: netns };
    await lab.add({ env });
    lab.plugins.script("ptp DEL", failed(5, "busy"));
    await lab.del({ env });
    lab.plugins.unscript("ptp DEL");
  }
  lab.advance(31_000);
  const [first, second] = [connected(), connected()];
  await eventually(() => expect(lab.records.keys).toEqual([]));
  await served[0];
  expect(first.orders.at(-1)).toEqual(done);
  expect(second.orders).toEqual([]);
});
