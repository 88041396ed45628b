import type { InterfaceAnswer, JoinAnswer } from "#docker/driver/protocol.ts";
import type { RequestOf } from "#docker/driver/requests.ts";
import type { JsonFiles } from "#docker/json-files.ts";
import type { Networks } from "#docker/networks/networks.ts";
import type { EndpointState, LinkState, NetworkState } from "#docker/state.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { EndpointHost } from "./endpoint-host.ts";
import { interfaceAnswer, joinAnswer } from "./hand-over.ts";
import { chooseHostPorts, holdersOf, type ProbePort, type TakenPort } from "./host-ports.ts";
import { newEndpoint } from "./new-endpoint.ts";

export interface EndpointsOptions {
  readonly stored: JsonFiles<EndpointState>;
  readonly networks: Networks;
  readonly host: EndpointHost;
  readonly probePort: ProbePort;
  /** Detaches each of these endpoints that dockerd has certainly forgotten. Never fails. */
  readonly detachForgotten: (endpointIds: readonly string[]) => Promise<void>;
  /** Prefix for dockerd's paths of network namespaces; "" if they are the same here. */
  readonly sandboxRoot: string;
  readonly bootId: string;
  /** ISO 8601. */
  readonly now: () => string;
  readonly logger: Logger;
}

type CreateEndpoint = RequestOf<"NetworkDriver.CreateEndpoint">;

/** The endpoints of Docker's containers. Calls for one endpoint run one after another. */
export class Endpoints {
  readonly #options: EndpointsOptions;
  readonly #locks = new KeyedMutex();
  /** One endpoint at a time chooses ports of the host. */
  readonly #portLock = new KeyedMutex();

  constructor(options: EndpointsOptions) {
    this.#options = options;
  }

  /**
   * Creates an endpoint, in staged mode with its interface. Idempotent.
   * @throws CniError or Error; the endpoint is detached now or on a later attempt
   */
  async create(request: CreateEndpoint): Promise<InterfaceAnswer> {
    const { stored, networks, host, logger } = this.#options;
    using _lock = await this.#locks.acquire(request.EndpointID);
    const network = networks.get(request.NetworkID);
    const before = stored.get(request.EndpointID);
    if (before?.phase === "created") return interfaceAnswer(before);
    if (before?.phase === "joined") {
      throw new Error(`endpoint ${request.EndpointID} is joined to a container`);
    }
    if (before !== undefined) await this.#detach(before);
    const endpoint = await this.#prepare(network, request);
    try {
      const stage = (): Promise<LinkState> => host.stage(endpoint);
      const link = endpoint.mode === "staged" ? await this.#attach(endpoint, stage) : undefined;
      const created = this.#inPhase("created", { ...endpoint, ...omitUndefined({ link }) });
      const answer = interfaceAnswer(created);
      await stored.put(created.id, created);
      const { id, displayName, portMappings } = created;
      // Docker does not show the ports that a remote driver publishes.
      if (portMappings.length > 0) {
        logger.info({ endpoint: id, network: displayName, portMappings }, "published ports");
      }
      return answer;
    } catch (error) {
      await this.#discard(endpoint);
      throw error;
    }
  }

  /** Hands an endpoint over to a container. Idempotent. @throws as {@link create} */
  async join(request: RequestOf<"NetworkDriver.Join">): Promise<JoinAnswer> {
    using _lock = await this.#locks.acquire(request.EndpointID);
    const { stored, networks, host, sandboxRoot } = this.#options;
    const endpoint = this.#get(request.EndpointID);
    const network = networks.get(endpoint.networkId);
    const sandboxKey = sandboxRoot + request.SandboxKey;
    this.#checkSharedPorts(endpoint, sandboxKey);
    const mayRepeat = endpoint.mode === "staged" && endpoint.phase === "joined";
    if (endpoint.phase !== "created" && !(mayRepeat && (await host.isOnHost(endpoint)))) {
      const { id, phase } = endpoint;
      throw new Error(`endpoint ${id} cannot be joined to a container: it is ${phase}`);
    }
    if (endpoint.mode === "direct") return await this.#joinDirectly(endpoint, network, sandboxKey);
    await host.handOver(endpoint);
    await this.#put("joined", { ...endpoint, sandboxKey });
    const isOther = ({ id, phase, sandboxKey: key }: EndpointState): boolean =>
      phase === "joined" && key === sandboxKey && id !== endpoint.id;
    const others = stored.all().filter(isOther);
    const joined = others.map((each) => ({
      endpoint: each,
      network: networks.get(each.networkId),
    }));
    return joinAnswer({ endpoint, network }, joined);
  }

  /** Takes an endpoint back before dockerd returns its interface. @throws as {@link remove} */
  async leave(request: RequestOf<"NetworkDriver.Leave">): Promise<void> {
    using _lock = await this.#locks.acquire(request.EndpointID);
    const endpoint = this.#options.stored.get(request.EndpointID);
    if (endpoint?.phase !== "joined") return;
    if (endpoint.mode === "direct") await this.#options.host.detach(endpoint);
    await this.#put("left", endpoint);
  }

  /** Removes an endpoint, if known. @throws CniError or Error when it is not fully detached */
  async remove(endpointId: string): Promise<void> {
    using _lock = await this.#locks.acquire(endpointId);
    const endpoint = this.#options.stored.get(endpointId);
    if (endpoint !== undefined) await this.#detach(endpoint);
  }

  /** As {@link remove}, if no call for it is in flight and `isDue` confirms it under the lock. */
  async removeIf(
    endpointId: string,
    isDue: (endpoint: EndpointState) => Promise<boolean>,
  ): Promise<boolean> {
    using lock = this.#locks.tryAcquire(endpointId);
    const endpoint = this.#options.stored.get(endpointId);
    if (lock === undefined || endpoint === undefined || !(await isDue(endpoint))) return false;
    await this.#detach(endpoint);
    return true;
  }

  /** What dockerd uses of a driver's endpoint. @throws Error when it is not known */
  info(endpointId: string): Record<string, string> {
    const { link } = this.#get(endpointId);
    return link?.mac === undefined ? {} : { "com.docker.network.endpoint.macaddress": link.mac };
  }

  async #prepare(network: NetworkState, request: CreateEndpoint): Promise<EndpointState> {
    const { stored, host, probePort: probe, detachForgotten, bootId, now, logger } = this.#options;
    using _lock = await this.#portLock.acquire("");
    const networkId = network.id;
    const endpoint = await newEndpoint(network, request, {
      bootId,
      now: now(),
      stagingNetns: host.namespaces.pathOf(request.EndpointID),
      choosePorts: async (published) => {
        await detachForgotten(holdersOf(published, this.#takenPorts()));
        return await chooseHostPorts(published, { networkId, taken: this.#takenPorts(), probe });
      },
      warn: (message) => logger.warn({ endpoint: request.EndpointID }, message),
    });
    await stored.put(endpoint.id, endpoint);
    return endpoint;
  }

  #takenPorts(): TakenPort[] {
    const endpoints = this.#options.stored.all();
    return endpoints.flatMap(({ id, networkId, portMappings }) =>
      portMappings.map((mapping) => ({ mapping, endpointId: id, networkId })),
    );
  }

  /** Attaches an endpoint; twice if the first failure may be due to endpoints that dockerd forgot. */
  async #attach(endpoint: EndpointState, attach: () => Promise<LinkState>): Promise<LinkState> {
    const { stored, host, detachForgotten } = this.#options;
    const others = stored.all().flatMap(({ id }) => (id === endpoint.id ? [] : [id]));
    try {
      return await attach();
    } catch (error) {
      await detachForgotten(others);
      if (others.every((id) => stored.get(id) !== undefined)) throw error;
      // The first failure says more than that of its clean-up, which is tried again.
      await host.detach(endpoint).catch(() => Promise.reject(error));
      return await attach();
    }
  }

  /** @throws Error when another container has the ports that another endpoint publishes */
  #checkSharedPorts({ sharesPortsWith }: EndpointState, sandboxKey: string): void {
    for (const id of sharesPortsWith) {
      const owner = this.#options.stored.get(id);
      if (owner?.sandboxKey === sandboxKey) continue;
      if (owner === undefined) {
        throw new Error("cannot publish ports: another container had them; start it again");
      }
      const ports = owner.portMappings.map(({ hostPort }) => hostPort).join(", ");
      throw new Error(
        `cannot publish port ${ports}: a container on network ${owner.displayName} has it`,
      );
    }
  }

  async #joinDirectly(
    endpoint: EndpointState,
    network: NetworkState,
    sandboxKey: string,
  ): Promise<JoinAnswer> {
    const { host, stored } = this.#options;
    const free = await host.freeIfName(sandboxKey, network.options.ifPrefix);
    const ifName = endpoint.wantedIfName ?? free;
    const place = { ifName, netns: sandboxKey, sandboxKey };
    const attaching = this.#inPhase("creating", { ...endpoint, ...place });
    await stored.put(attaching.id, attaching);
    try {
      const link = await this.#attach(attaching, () => host.attachInside(attaching));
      await this.#put("joined", { ...attaching, link });
    } catch (error) {
      await this.#discard(attaching);
      throw error;
    }
    // The routes are in the container already.
    return { InterfaceName: {}, StaticRoutes: [], DisableGatewayService: true };
  }

  async #discard(endpoint: EndpointState): Promise<void> {
    const message = "could not detach an endpoint that could not be created; retrying";
    await this.#detach(endpoint).catch(this.#warner(endpoint, message));
  }

  async #detach(endpoint: EndpointState): Promise<void> {
    const { stored, host } = this.#options;
    const { id, mode, phase } = endpoint;
    if (mode === "staged" || !(phase === "created" || phase === "left")) {
      // The phase makes retries start sooner. A full disk does not keep an endpoint attached.
      const message = "could not write an endpoint's state; detaching it anyway";
      await this.#put("deleting", endpoint).catch(this.#warner(endpoint, message));
      await host.detach(endpoint);
    }
    await stored.remove(id);
  }

  #warner({ id }: EndpointState, message: string): (error: unknown) => void {
    const { logger } = this.#options;
    return (error) => logger.warn({ endpoint: id, error: errorMessage(error) }, message);
  }

  #put(phase: EndpointState["phase"], endpoint: EndpointState): Promise<void> {
    return this.#options.stored.put(endpoint.id, this.#inPhase(phase, endpoint));
  }

  #inPhase(phase: EndpointState["phase"], endpoint: EndpointState): EndpointState {
    return { ...endpoint, phase, since: this.#options.now() };
  }

  #get(endpointId: string): EndpointState {
    const endpoint = this.#options.stored.get(endpointId);
    if (endpoint !== undefined) return endpoint;
    throw new Error(`endpoint ${endpointId} is not known`);
  }
}
