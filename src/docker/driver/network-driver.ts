import type { Endpoints } from "#docker/endpoints/endpoints.ts";
import type { Networks } from "#docker/networks/networks.ts";
import type { Logger } from "#engine/ports.ts";
import type { Capabilities, EmptyAnswer, NetworkDriver } from "./protocol.ts";

/** What {@link networkDriver} answers from. */
export interface DriverParts {
  readonly networks: Networks;
  readonly endpoints: Endpoints;
  readonly capabilities: Capabilities;
  readonly logger: Logger;
}

const empty: EmptyAnswer = {};

/** Serves libnetwork's remote driver protocol from networks and endpoints. */
export function networkDriver(parts: DriverParts): NetworkDriver {
  const { networks, endpoints, capabilities, logger } = parts;
  return {
    "Plugin.Activate": async () => ({ Implements: ["NetworkDriver"] }),
    "NetworkDriver.GetCapabilities": async () => capabilities,
    "NetworkDriver.GwAllocCheck": async ({ Options }) => {
      const skip = await networks.needsNoGateway(Options);
      return { SkipIPv4: skip, SkipIPv6: skip };
    },
    // Nothing is allocated for all nodes: each node resolves the network itself.
    "NetworkDriver.AllocateNetwork": async ({ Options }) => ({ Options: textsOf(Options) }),
    "NetworkDriver.FreeNetwork": async () => empty,
    "NetworkDriver.CreateNetwork": (request) => done(networks.create(request)),
    "NetworkDriver.DeleteNetwork": ({ NetworkID }) => done(networks.remove(NetworkID)),
    "NetworkDriver.CreateEndpoint": async (request) => ({
      Interface: await endpoints.create(request),
    }),
    "NetworkDriver.EndpointOperInfo": async ({ EndpointID }) => ({
      Value: endpoints.info(EndpointID),
    }),
    "NetworkDriver.DeleteEndpoint": ({ EndpointID }) => done(endpoints.remove(EndpointID)),
    "NetworkDriver.Join": (request) => endpoints.join(request),
    "NetworkDriver.Leave": (request) => done(endpoints.leave(request)),
    // The plugin portmap published the ports when the endpoint was created.
    "NetworkDriver.ProgramExternalConnectivity": async () => empty,
    "NetworkDriver.RevokeExternalConnectivity": async () => empty,
    "NetworkDriver.DiscoverNew": async ({ DiscoveryType, DiscoveryData }) => {
      logger.debug({ type: DiscoveryType, data: DiscoveryData }, "dockerd discovered a node");
      return empty;
    },
    "NetworkDriver.DiscoverDelete": async ({ DiscoveryType, DiscoveryData }) => {
      logger.debug({ type: DiscoveryType, data: DiscoveryData }, "dockerd lost a node");
      return empty;
    },
  };
}

async function done(work: Promise<void>): Promise<EmptyAnswer> {
  await work;
  return empty;
}

function textsOf(options: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts = Object.entries(options).filter(([, value]) => typeof value === "string");
  return Object.fromEntries(texts) as Record<string, string>;
}
