import type { InterfaceAnswer, JoinAnswer } from "#docker/driver/answers.ts";
import type { RequestOf } from "#docker/driver/requests.ts";
import { DriverError } from "#docker/driver-error.ts";
import type { Collection } from "#docker/json-files.ts";
import type { Networks } from "#docker/networks/networks.ts";
import type { EndpointState, NetworkState } from "#docker/state.ts";
import type { Logger } from "#engine/ports.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { interfaceAnswer, joinAnswer } from "./endpoint-answers.ts";
import type { EndpointHost } from "./endpoint-host.ts";
import { chooseHostPorts, type ProbePort, type TakenPort } from "./host-ports.ts";
import { planEndpoint } from "./new-endpoint.ts";

/** What the endpoints are kept and made with. */
export interface EndpointsOptions {
  readonly stored: Collection<EndpointState>;
  readonly networks: Networks;
  readonly host: EndpointHost;
  readonly probePort: ProbePort;
  /** What comes before the engine's paths of network namespaces; "" where they are this process's own. */
  readonly sandboxRoot: string;
  readonly bootId: string;
  /** ISO 8601. */
  readonly now: () => string;
  readonly logger: Logger;
}

/** The endpoints of the engine's containers, from their creation to their end. Calls for one wait for each other. */
export class Endpoints {
  readonly #options: EndpointsOptions;
  readonly #turns = new KeyedMutex();
  /** Ports of the host are chosen by one endpoint after another. */
  readonly #ports = new KeyedMutex();

  constructor(options: EndpointsOptions) {
    this.#options = options;
  }

  /**
   * Makes an endpoint, in the staged mode with its interface. Repeated it gives the same answer.
   * @throws DriverError, CniError or Error when it cannot be made; nothing of it is then left, or it is tried again
   */
  async create(request: RequestOf<"NetworkDriver.CreateEndpoint">): Promise<InterfaceAnswer> {
    const { stored, networks, host } = this.#options;
    using _turn = await this.#turns.acquire(request.EndpointID);
    const network = networks.get(request.NetworkID);
    const before = stored.get(request.EndpointID);
    if (before?.phase === "created") return interfaceAnswer(before);
    if (before?.phase === "joined") {
      throw new DriverError(`endpoint ${request.EndpointID} is joined to a container`);
    }
    if (before !== undefined) await this.#detach(before);
    const planned = await this.#plan(network, request);
    try {
      const link = planned.mode === "staged" ? await host.stage(planned) : undefined;
      const created = this.#entering("created", { ...planned, ...omitUndefined({ link }) });
      const answer = interfaceAnswer(created);
      await stored.put(created.id, created);
      this.#reportPorts(created);
      return answer;
    } catch (error) {
      await this.#discard(planned);
      throw error;
    }
  }

  /** Hands an endpoint over to a container. Repeated it gives the same answer. @throws as {@link create} */
  async join(request: RequestOf<"NetworkDriver.Join">): Promise<JoinAnswer> {
    using _turn = await this.#turns.acquire(request.EndpointID);
    const { networks, host, sandboxRoot } = this.#options;
    const endpoint = this.#get(request.EndpointID);
    const network = networks.get(endpoint.networkId);
    const sandboxKey = sandboxRoot + request.SandboxKey;
    this.#checkSharedPorts(endpoint, sandboxKey);
    if (endpoint.mode === "direct") return this.#joinDirectly(endpoint, network, sandboxKey);
    const mayRepeat = endpoint.phase === "joined" && (await host.isOnHost(endpoint));
    if (endpoint.phase !== "created" && !mayRepeat) throw cannotJoin(endpoint);
    await host.handOver(endpoint);
    await this.#put("joined", { ...endpoint, sandboxKey });
    return joinAnswer(endpoint, network);
  }

  /** Takes an endpoint back from a container. The engine returns its interface afterwards. @throws as {@link remove} */
  async leave(request: RequestOf<"NetworkDriver.Leave">): Promise<void> {
    using _turn = await this.#turns.acquire(request.EndpointID);
    const endpoint = this.#options.stored.get(request.EndpointID);
    if (endpoint?.phase !== "joined") return;
    if (endpoint.mode === "direct") await this.#options.host.detach(endpoint);
    await this.#put("left", endpoint);
  }

  /** Removes an endpoint. One that is not known is no error. @throws CniError or Error when something is left */
  async remove(endpointId: string): Promise<void> {
    using _turn = await this.#turns.acquire(endpointId);
    const endpoint = this.#options.stored.get(endpointId);
    if (endpoint !== undefined) await this.#detach(endpoint);
  }

  /**
   * Removes an endpoint if no call is under way for it and `isDue` still says so.
   * @throws CniError or Error when something is left
   */
  async removeIf(
    endpointId: string,
    isDue: (endpoint: EndpointState) => Promise<boolean>,
  ): Promise<boolean> {
    using turn = this.#turns.tryAcquire(endpointId);
    const endpoint = this.#options.stored.get(endpointId);
    if (turn === undefined || endpoint === undefined || !(await isDue(endpoint))) return false;
    await this.#detach(endpoint);
    return true;
  }

  /** What the engine's users may like to know. @throws DriverError when the endpoint is not known */
  info(endpointId: string): Record<string, unknown> {
    const { displayName, mode, phase, link, portMappings } = this.#get(endpointId);
    return {
      "plexus.network": displayName,
      "plexus.mode": mode,
      "plexus.phase": phase,
      "plexus.addresses": link?.addresses ?? [],
      "plexus.portMappings": portMappings,
      ...(link?.mac === undefined ? {} : { "com.docker.network.endpoint.macaddress": link.mac }),
    };
  }

  async #plan(
    network: NetworkState,
    request: RequestOf<"NetworkDriver.CreateEndpoint">,
  ): Promise<EndpointState> {
    const { stored, host, probePort: probe, bootId, now, logger } = this.#options;
    using _ports = await this.#ports.acquire("");
    const networkId = network.id;
    const taken = stored.all().flatMap(takenPorts);
    const planned = await planEndpoint(network, request, {
      bootId,
      now: now(),
      stagingNetns: host.stagingNetns(request.EndpointID),
      choosePorts: (published) => chooseHostPorts(published, { networkId, taken, probe }),
      warn: (message) => logger.warn({ endpoint: request.EndpointID }, message),
    });
    await stored.put(planned.id, planned);
    return planned;
  }

  /** @throws DriverError when the ports that another endpoint publishes are another container's */
  #checkSharedPorts({ sharesPortsWith }: EndpointState, sandboxKey: string): void {
    for (const id of sharesPortsWith) {
      const owner = this.#options.stored.get(id);
      if (owner === undefined || owner.sandboxKey === sandboxKey) continue;
      const ports = owner.portMappings.map(({ hostPort }) => hostPort).join(", ");
      throw new DriverError(
        `cannot publish port ${ports}: a container on network ${owner.displayName} has it`,
      );
    }
  }

  /** The engine shows none of the ports that a remote driver publishes. */
  #reportPorts({ id, displayName, portMappings }: EndpointState): void {
    if (portMappings.length === 0) return;
    const fields = { endpoint: id, network: displayName, portMappings };
    this.#options.logger.info(fields, "ports are published");
  }

  async #joinDirectly(
    endpoint: EndpointState,
    network: NetworkState,
    sandboxKey: string,
  ): Promise<JoinAnswer> {
    const { host } = this.#options;
    if (endpoint.phase !== "created") throw cannotJoin(endpoint);
    const free = await host.freeIfName(sandboxKey, network.options.ifPrefix);
    const ifName = endpoint.wantedIfName ?? free;
    const place = { ifName, netns: sandboxKey, sandboxKey };
    const attaching = this.#entering("creating", { ...endpoint, ...place });
    await this.#options.stored.put(attaching.id, attaching);
    try {
      const link = await host.attachInside(attaching);
      await this.#put("joined", { ...attaching, link });
    } catch (error) {
      await this.#discard(attaching);
      throw error;
    }
    // The routes are in the container already.
    return { InterfaceName: {}, StaticRoutes: [], DisableGatewayService: true };
  }

  /** Detaches what could not be made; what is left of it is tried again later. */
  async #discard(endpoint: EndpointState): Promise<void> {
    try {
      await this.#detach(endpoint);
    } catch (error) {
      this.#options.logger.warn(
        { endpoint: endpoint.id, error: errorMessage(error) },
        "an endpoint that could not be made is not detached yet; it is tried again",
      );
    }
  }

  async #detach(endpoint: EndpointState): Promise<void> {
    const { stored, host } = this.#options;
    const { id, mode, phase } = endpoint;
    const isAttached = mode === "staged" || !(phase === "created" || phase === "left");
    if (isAttached) {
      await this.#markDeleting(endpoint);
      await host.detach(endpoint);
    }
    await stored.remove(id);
  }

  /** With the mark a teardown is repeated sooner. A full disk does not keep what containers hold from being released. */
  async #markDeleting(endpoint: EndpointState): Promise<void> {
    try {
      await this.#put("deleting", endpoint);
    } catch (error) {
      this.#options.logger.warn(
        { endpoint: endpoint.id, error: errorMessage(error) },
        "an endpoint's state cannot be written; it is detached nevertheless",
      );
    }
  }

  #put(phase: EndpointState["phase"], endpoint: EndpointState): Promise<void> {
    return this.#options.stored.put(endpoint.id, this.#entering(phase, endpoint));
  }

  #entering(phase: EndpointState["phase"], endpoint: EndpointState): EndpointState {
    return { ...endpoint, phase, since: this.#options.now() };
  }

  #get(endpointId: string): EndpointState {
    const endpoint = this.#options.stored.get(endpointId);
    if (endpoint !== undefined) return endpoint;
    throw new DriverError(`endpoint ${endpointId} is not known`);
  }
}

function takenPorts({ id, networkId, portMappings }: EndpointState): TakenPort[] {
  return portMappings.map((mapping) => ({ mapping, endpointId: id, networkId }));
}

function cannotJoin({ id, phase }: EndpointState): DriverError {
  return new DriverError(`endpoint ${id} cannot be joined to a container: it is ${phase}`);
}
