import { expect, test } from "vitest";
import { HostGoneError } from "#engine/ports/host.ts";
import type { SandboxHosts } from "#engine/ports/sandbox-hosts.ts";
import { AgentTasks } from "./agent-tasks.ts";

const sandbox = { containerId: "c1", ifName: "eth0", netns: "/run/netns/c1" };
const claims = [{ key: "a", share: 1 }];

/** Tasks of an agent whose plugins hang, and how many orders it got. */
function makeTasks() {
  const agent = { orders: 0, open: 0 };
  const hang = (): Promise<never> => {
    agent.orders++;
    return new Promise(() => undefined);
  };
  const hosts: SandboxHosts = {
    isAvailable: () => true,
    onAvailable: () => undefined,
    open: async () => {
      agent.open++;
      const gone = new AbortController().signal;
      const dispose = async (): Promise<void> => void agent.open--;
      const host = { gone, exec: hang, find: hang, netlink: hang, occupants: hang };
      return { host, links: new Set<string>(), path: [], [Symbol.asyncDispose]: dispose };
    },
  };
  return { agent, tasks: new AgentTasks(hosts) };
}

test("what is ended fails as if the agent had gone, which the engine knows", async () => {
  const { agent, tasks } = makeTasks();
  const hosts = tasks.hosts({ claims, signal: tasks.ended });
  {
    await using session = await hosts.open(sandbox);
    const { host } = session;
    const running = expect(host.netlink("", new Uint8Array())).rejects.toThrow(HostGoneError);
    tasks.beginNoMore();
    await expect(hosts.open(sandbox)).rejects.toThrow(HostGoneError);
    expect(host.gone.aborted).toBe(false);
    tasks.end();
    await running;
    expect(host.gone.aborted).toBe(true);
    await expect(host.find([], [])).rejects.toThrow(HostGoneError);
  }
  expect(agent).toEqual({ orders: 1, open: 0 });
});

test("a task that waits for its share, or cannot begin, holds no place", async () => {
  const { agent, tasks } = makeTasks();
  const begun: string[] = [];
  const onOpen = (): void => void begun.push("a");
  const hosts = tasks.hosts({ claims, signal: tasks.ended, onOpen });
  const opened = Array.from({ length: 33 }, () => hosts.open(sandbox));
  const others = Promise.allSettled(opened.slice(15));
  await new Promise(setImmediate);
  expect([begun.length, agent.open]).toEqual([33, 15]);
  tasks.beginNoMore();
  expect((await others).map(({ status }) => status)).toEqual(Array(18).fill("rejected"));
  tasks.end();
  for (const each of opened.slice(0, 15)) await (await each)[Symbol.asyncDispose]();
  expect(agent.open).toBe(0);
});
