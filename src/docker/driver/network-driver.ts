import type { Endpoints } from "#docker/endpoints/endpoints.ts";
import type { Networks } from "#docker/networks/networks.ts";
import type { Capabilities, NetworkDriver } from "./protocol.ts";

/** Serves libnetwork's remote driver protocol from networks and endpoints. */
export function networkDriver(parts: {
  readonly networks: Networks;
  readonly endpoints: Endpoints;
  readonly capabilities: Capabilities;
}): NetworkDriver {
  const { networks, endpoints, capabilities } = parts;
  return {
    "Plugin.Activate": async () => ({ Implements: ["NetworkDriver"] }),
    "NetworkDriver.GetCapabilities": async () => ({
      ...capabilities,
      // The driver answers GwAllocCheck, which Docker Engine 28 and later send.
      GwAllocChecker: true,
    }),
    "NetworkDriver.GwAllocCheck": async ({ Options }) => {
      const skip = await networks.needsNoGateway(Options);
      return { SkipIPv4: skip, SkipIPv6: skip };
    },
    // Nothing is allocated for all nodes: each node resolves the network itself.
    "NetworkDriver.AllocateNetwork": async ({ Options }) => ({ Options: textsOf(Options) }),
    "NetworkDriver.FreeNetwork": async () => ({}),
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
    "NetworkDriver.ProgramExternalConnectivity": async () => ({}),
    "NetworkDriver.RevokeExternalConnectivity": async () => ({}),
    "NetworkDriver.DiscoverNew": async () => ({}),
    "NetworkDriver.DiscoverDelete": async () => ({}),
  };
}

async function done(work: Promise<void>): Promise<object> {
  await work;
  return {};
}

function textsOf(options: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts = Object.entries(options).filter(([, value]) => typeof value === "string");
  return Object.fromEntries(texts) as Record<string, string>;
}
