import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { getPodResources, listPodResources, type PodResources } from "#devices/pod-resources.ts";
import { GrpcStatus } from "#grpc/call-unary.ts";
import { message, part, parts, text, texts } from "#grpc/testing/message-types.ts";
import { ScriptedServer, status } from "#grpc/testing/scripted-server.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

const containerDevices = message({ resourceName: text(1), deviceIds: texts(2) });
const container = message({ name: text(1), devices: parts(2, containerDevices) });
const pod = message({ name: text(1), namespace: text(2), containers: parts(3, container) });
const list = {
  path: listPodResources.path,
  request: message({}),
  response: message({ podResources: parts(1, pod) }),
};
const get = {
  path: getPodResources.path,
  request: message({ podName: text(1), podNamespace: text(2) }),
  response: message({ podResources: part(1, pod) }),
};

/** The devices of each container by resource, in the kubelet's order of containers. */
type Containers = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

/** A pod as the kubelet lists it. Each device has a separate entry, in random order. */
export function listedPod(name: string, containers: Containers): PodResources {
  return {
    namespace: "default",
    name,
    containers: Object.entries(containers).map(([container, resources]) => ({
      name: container,
      devices: shuffled(
        Object.entries(resources).flatMap(([resourceName, ids]) =>
          ids.map((id) => ({ resourceName, deviceIds: [id] })),
        ),
      ),
    })),
  };
}

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** A kubelet's directory with a real gRPC server, which a test scripts. */
export class FakeKubelet {
  readonly dir: string;
  readonly #server: ScriptedServer;
  /** What `List` answers, and `Get` the first of the name. */
  pods: PodResources[] = [];
  /** What `Get` answers instead, as one that finds another pod of the name. */
  predecessor: PodResources | undefined;
  getIsDisabled = false;
  /** How many calls still fail for the rate limit. */
  rateLimited = 0;
  hangs = false;

  private constructor(dir: string, server: ScriptedServer) {
    this.dir = dir;
    this.#server = server;
  }

  static async create(): Promise<FakeKubelet> {
    const dir = await temporaryDirectory();
    await mkdir(join(dir, "pod-resources"));
    await mkdir(join(dir, "device-plugins"));
    const server = await ScriptedServer.create(join(dir, "pod-resources/kubelet.sock"));
    return new FakeKubelet(dir, server);
  }

  /** `Get` and `List`, one for each call. */
  get calls(): string[] {
    return this.#server.requests.map(([path]) => path.split("/").at(-1) ?? "");
  }

  async start(): Promise<this> {
    this.#server
      .answer(get, async (request) => {
        await this.#limits();
        if (this.getIsDisabled) {
          throw status(GrpcStatus.Unknown, "PodResources API Get method disabled");
        }
        const { podName, podNamespace } = request;
        const found = this.predecessor ?? this.pods.find(({ name }) => name === podName);
        if (found !== undefined) return { podResources: found };
        const details = `pod ${podName} in namespace ${podNamespace} not found`;
        throw status(GrpcStatus.Unknown, details);
      })
      .answer(list, async () => {
        await this.#limits();
        return { podResources: this.pods };
      });
    // A client that waits for its restart finds a socket at any time.
    await this.#server.start({ at: `${this.#server.socketPath}.new` });
    return this;
  }

  /** As when the kubelet ends; its socket is gone. */
  stop(): void {
    this.#server.stop();
  }

  /** Leaves the socket without a listener, as after SIGKILL. */
  async kill(): Promise<void> {
    const path = this.#server.socketPath;
    await rename(path, `${path}.moved`);
    this.#server.stop();
    await rename(`${path}.moved`, path);
  }

  async writeCheckpoint(content: string | object): Promise<void> {
    const text = typeof content === "string" ? content : JSON.stringify(content);
    await writeFile(join(this.dir, "device-plugins/kubelet_internal_checkpoint"), text);
  }

  async #limits(): Promise<void> {
    if (this.hangs) await new Promise<never>(() => undefined);
    if (this.rateLimited === 0) return;
    this.rateLimited -= 1;
    throw status(GrpcStatus.ResourceExhausted, "rejected by rate limit");
  }
}
