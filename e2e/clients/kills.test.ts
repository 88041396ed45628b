import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { differences, type HostState } from "../support/host-state.ts";
import { waitUntil } from "../support/wait.ts";
import { ClientsMachine } from "./machine.ts";
import { pageSteps } from "./page.ts";

const image = "docker.io/library/busybox:1.37";

/** How a client attaches and detaches the same container. */
const clients = {
  nerdctl: {
    start: `nerdctl run -d --name web --network plexus -p 8080:80 ${image} sleep 1000`,
    remove: "nerdctl rm -f web",
  },
  cnitool: {
    start: "ip netns add web; cnitool add plexus /run/netns/web",
    remove: "cnitool del plexus /run/netns/web; ip netns del web",
  },
} as const;

const cnitoolEnvironment = `export CNI_PATH=/opt/cni/bin NETCONFPATH=/etc/cni/net.d
export CAP_ARGS='{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'`;

const victims = ["plugin", "shim", "plexus-standalone", "client"];
const addMoments = ["front ADD before", "back ADD after"];
const delMoments = ["front DEL after"];

let machine: ClientsMachine;

beforeAll(async () => {
  machine = await ClientsMachine.create();
  for (const { text } of (await pageSteps()).install) await machine.sh(text);
});
afterAll(() => machine?.[Symbol.asyncDispose]());

const run = (commands: string) => machine.try(`set +e\n${cnitoolEnvironment}\n${commands}`);

/** Runs commands, during which a process must be killed. */
async function struck(at: string, commands: string): Promise<void> {
  await machine.sh(`echo '${at}' >/run/strike`);
  await run(commands);
  expect((await machine.try("test -e /run/strike")).exitCode, `${at} was not reached`).toBe(1);
}

/** Each DEL detaches one leftover, if half a minute has passed. */
async function waitUntilNothingIsLeft(
  before: HostState,
  { start, remove }: { readonly start: string; readonly remove: string },
): Promise<void> {
  let left: string[] = [];
  const nothingIsLeft = async (): Promise<boolean> => {
    await run(`${start}\n${remove}`);
    // The clients keep their own cache of a container whose DEL failed.
    const { "cached results": _, ...after } = await machine.state();
    left = differences(before, after);
    return left.length === 0;
  };
  await waitUntil("nothing is left", nothingIsLeft, { timeoutMs: 150_000, intervalMs: 1000 }).catch(
    () => undefined,
  );
  expect(left).toEqual([]);
}

test.each(Object.entries(clients))(
  "%s: after a kill of plugin, shim, plexus-standalone or client at any step, removal and the next calls leave nothing",
  async (_, client) => {
    const bridge = join(import.meta.dirname, "striking-bridge.sh");
    await machine.sh(`[ -e /opt/cni/real ] || { mkdir /opt/cni/real; mv /opt/cni/bin/bridge /opt/cni/real; }
cp ${bridge} /opt/cni/bin/bridge`);
    // Bridges and the plugins' chains stay after their first use.
    await run(`${client.start}\n${client.remove}`);
    const { "cached results": _cached, ...before } = await machine.state();
    for (const victim of victims) {
      for (const moment of addMoments) {
        await struck(`${moment} ${victim}`, client.start);
        await run(client.remove);
      }
      for (const moment of delMoments) {
        expect((await run(client.start)).exitCode).toBe(0);
        await struck(`${moment} ${victim}`, client.remove);
        await run(client.remove);
      }
    }
    await waitUntilNothingIsLeft(before, client);
  },
);
