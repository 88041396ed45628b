import { once } from "node:events";
import { mkdtempDisposable, readdir, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { networkDriver } from "#docker/driver/network-driver.ts";
import { startPluginServer } from "#docker/driver/plugin-server.ts";
import { EndpointHost } from "#docker/endpoints/endpoint-host.ts";
import { Endpoints } from "#docker/endpoints/endpoints.ts";
import { ForgottenEndpoints } from "#docker/endpoints/forgotten-endpoints.ts";
import { JsonFiles } from "#docker/json-files.ts";
import { Networks } from "#docker/networks/networks.ts";
import { endpointSchema, networkSchema } from "#docker/state.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { FakeRecords } from "#engine/testing/fake-records.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import type { UnixSocketServer } from "#lib/net/unix-socket-server.ts";
import { FakeMachine } from "./fake-machine.ts";

/** A bridge with IPAM. */
export const bridgeList = {
  cniVersion: "1.0.0",
  name: "red",
  plugins: [
    {
      type: "bridge",
      ipMasq: true,
      capabilities: { ips: true, mac: true },
      ipam: { type: "host-local", routes: [{ dst: "0.0.0.0/0" }] },
    },
    { type: "portmap", capabilities: { portMappings: true } },
    { type: "bandwidth", capabilities: { bandwidth: true } },
  ],
};

/** A network's data from Docker's null IPAM. */
export const nullIpam = {
  IPv4Data: [{ AddressSpace: "null", Pool: "0.0.0.0/0" }],
  IPv6Data: [],
};

/** An HTTP answer. */
export interface Answer {
  readonly status: number;
  readonly json: Record<string, unknown>;
}

/** The key of an endpoint of {@link benchWithNetwork}. */
export const key = { NetworkID: "n1", EndpointID: "e1" };
/** CNI_NETNS of that endpoint's ADD in staged mode. */
export const staging = "/run/netns/plexus-docker-e1";
/** The namespace of a container. */
export const sandbox = "/var/run/docker/netns/1bfe5dba4ec0";

/** Starts a driver without networks for one test. */
export async function startBench(): Promise<DriverBench> {
  const dir = await mkdtempDisposable(join(tmpdir(), "plexus-docker-"));
  const bench = new DriverBench(dir.path);
  onTestFinished(async () => {
    await bench.stop();
    await dir.remove();
  });
  await bench.start();
  return bench;
}

/** Starts a driver with the network `n1` for one test. */
export async function benchWithNetwork(
  extra: Parameters<DriverBench["createNetwork"]>[1] = {},
  list: object = bridgeList,
): Promise<DriverBench> {
  const bench = await startBench();
  await bench.createNetwork(list, extra);
  return bench;
}

/** Starts a driver with the endpoint `e1` in a running container. */
export async function benchWithContainer(list: object = bridgeList): Promise<DriverBench> {
  const bench = await benchWithNetwork({}, list);
  await bench.createEndpoint("e1");
  await bench.join("e1", sandbox);
  bench.machine.startContainer(sandbox, "plxe1");
  return bench;
}

/** The driver behind its socket, with an in-memory machine and state in files. */
export class DriverBench {
  readonly machine = new FakeMachine();
  readonly logger = new FakeLogger();
  readonly dir: string;
  /** The monotonic clock. */
  nowMs = 0;
  /** The wall clock at {@link nowMs} 0, since 1970. */
  clockMs = Date.parse("2026-01-01T00:00:00Z");
  bootId = "boot-1";
  records: AttachmentRecord[] = [];
  /** Whether writes to the endpoints' directory fail; files can be removed. */
  diskFull = false;
  #server: UnixSocketServer | undefined;
  #forgotten: ForgottenEndpoints | undefined;

  constructor(dir: string) {
    this.dir = dir;
  }

  get socketPath(): string {
    return join(this.dir, "plugins/plexus.sock");
  }

  /** Starts the driver with what is on disk. */
  async start(): Promise<void> {
    const { machine, logger, bootId, dir } = this;
    const now = (): string => new Date(this.clockMs + this.nowMs).toISOString();
    const networks = new Networks(
      await JsonFiles.open({ dir: join(dir, "networks"), schema: networkSchema, logger }),
      { confDir: join(dir, "net.d"), confFiles: new HostConfFiles(), logger },
    );
    const endpointsDir = join(dir, "endpoints");
    const stored = await JsonFiles.open({ dir: endpointsDir, schema: endpointSchema, logger });
    const put = stored.put.bind(stored);
    stored.put = async (id, value) => {
      if (this.diskFull) throw new Error("ENOSPC: no space left on device, write");
      await put(id, value);
    };
    const host = new EndpointHost({ runtime: machine, namespaces: machine, bootId });
    const probePort = async (port: number): Promise<number> => (port === 0 ? 40_000 : port);
    const endpoints = new Endpoints({
      ...{ stored, networks, host, probePort, bootId, now, logger, sandboxRoot: "" },
      detachForgotten: (ids) => forgotten.detachNow(ids),
    });
    const list = async () => ({ records: this.records, damaged: [] });
    const records = Object.assign(new FakeRecords([]), { list });
    const nowMs = (): number => this.nowMs;
    const forgotten = new ForgottenEndpoints({
      ...{ stored, endpoints, host, records, runtime: machine, bootId, nowMs, logger },
    });
    this.#forgotten = forgotten;
    const scopes = { Scope: "local", ConnectivityScope: "local" } as const;
    const driver = networkDriver({ networks, endpoints, capabilities: scopes });
    this.#server = await startPluginServer({ socketPath: this.socketPath, driver, logger });
  }

  async stop(): Promise<void> {
    await this.#server?.close({ removeFile: true });
    this.#server = undefined;
  }

  /** The names of the endpoints' files. */
  endpoints(): Promise<string[]> {
    return readdir(join(this.dir, "endpoints"));
  }

  /** The driver's timer. */
  async detachForgotten(): Promise<void> {
    await this.#forgotten?.detach();
  }

  /** The driver's shorter timer. */
  async lookAtNewContainers(): Promise<void> {
    await this.#forgotten?.lookAtNewContainers();
  }

  async ensureReachable(): Promise<void> {
    await this.#server?.ensureReachable();
  }

  /** Sends a raw body. */
  async send(path: string, body: string, method = "POST"): Promise<Answer> {
    const sent = request({ socketPath: this.socketPath, path, method });
    sent.end(body);
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    const json = JSON.parse(await text(response)) as Record<string, unknown>;
    return { status: response.statusCode ?? 0, json };
  }

  /** Calls a method of the driver. */
  call(method: string, body: object): Promise<Answer> {
    return this.send(`/NetworkDriver.${method}`, JSON.stringify(body));
  }

  /** Calls a method and returns the error of its answer. */
  async error(method: string, body: object): Promise<unknown> {
    return (await this.call(method, body)).json.Err;
  }

  /** Calls a method and returns its answer. @throws Error with the driver's error */
  async done(method: string, body: object): Promise<Record<string, unknown>> {
    const { status, json } = await this.call(method, body);
    if (status !== 200 || json.Err !== undefined) throw new Error(`${status} ${json.Err}`);
    return json;
  }

  /** Creates the network `n1`. */
  async createNetwork(
    list: object = bridgeList,
    { options = {}, ...extra }: { options?: object; [key: string]: unknown } = {},
  ): Promise<void> {
    const path = join(this.dir, "n1.conflist");
    await writeFile(path, JSON.stringify(list));
    await this.done("CreateNetwork", {
      NetworkID: "n1",
      Options: { "com.docker.network.generic": { "plexus.network": path, ...options } },
      ...nullIpam,
      ...extra,
    });
  }

  /** Creates an endpoint of `n1` and returns the answer. */
  async createEndpoint(id: string, extra: object = {}): Promise<Record<string, unknown>> {
    const body = { NetworkID: "n1", EndpointID: id, Interface: {}, Options: {}, ...extra };
    return (await this.done("CreateEndpoint", body)).Interface as Record<string, unknown>;
  }

  join(id: string, sandboxKey: string): Promise<Record<string, unknown>> {
    const endpoint = { NetworkID: "n1", EndpointID: id };
    return this.done("Join", { ...endpoint, SandboxKey: sandboxKey, Options: {} });
  }
}
