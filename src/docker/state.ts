import * as z from "zod";
import type { JsonObject } from "#lib/json.ts";
import { isJsonObject } from "#lib/json.ts";

/*
 * What the driver keeps on disk. The engine tells it of a network once, when it is created, and never again
 * after either of them was restarted.
 */

const json = z.custom<JsonObject>(isJsonObject);

const ipamData = z.array(
  z.object({
    AddressSpace: z.string().optional(),
    Gateway: z.string().optional(),
    Pool: z.string().optional(),
  }),
);

/** A network of the engine that this driver serves. */
export const networkSchema = z.object({
  schemaVersion: z.literal(1),
  id: z.string(),
  displayName: z.string(),
  options: z.object({
    network: z.string(),
    manifests: z.string().exactOptional(),
    mode: z.enum(["staged", "direct"]),
    gateway: z.enum(["auto", "none", "docker"]),
    ifPrefix: z.string(),
    internal: z.boolean(),
  }),
  /** The network configuration list as it was when the network was created. */
  conf: json,
  ipv4: ipamData,
  ipv6: ipamData,
});

const portMapping = z.object({
  hostPort: z.int(),
  containerPort: z.int(),
  protocol: z.enum(["tcp", "udp", "sctp"]),
  hostIP: z.string().exactOptional(),
});

const route = z.object({
  dst: z.string(),
  gateway: z.string().exactOptional(),
  metric: z.number(),
  isFromAddress: z.boolean(),
});

/** An endpoint, from before its first plugin is executed until everything of it is detached. */
export const endpointSchema = z.object({
  schemaVersion: z.literal(1),
  networkId: z.string(),
  id: z.string(),
  displayName: z.string(),
  mode: z.enum(["staged", "direct"]),
  /** The kernel's boot in which it was made: no interface survives one. */
  bootId: z.string(),
  /**
   * `creating`: plugins may have been executed. `created`: waits for Join, in the staged mode attached.
   * `joined`: handed over to a container. `left`: taken back. `deleting`: nothing may stay.
   */
  phase: z.enum(["creating", "created", "joined", "left", "deleting"]),
  /** ISO 8601: when it got into this phase. */
  since: z.string(),
  /** Of the calls: CNI_IFNAME, CNI_NETNS and the configuration. */
  ifName: z.string(),
  netns: z.string(),
  conf: json,
  portMappings: z.array(portMapping).readonly(),
  /** Endpoints that publish its ports, if they are the same container's. */
  sharesPortsWith: z.array(z.string()).readonly(),
  /** The addresses and MAC that the engine asked for; empty where the network chooses. */
  requested: z.object({
    Address: z.string().exactOptional(),
    AddressIPv6: z.string().exactOptional(),
    MacAddress: z.string().exactOptional(),
  }),
  /** The name that the user wants in the container. */
  wantedIfName: z.string().exactOptional(),
  /** What the kernel had of the interface when it was attached. */
  link: z
    .object({
      mac: z.string().exactOptional(),
      kind: z.string(),
      addresses: z.array(z.string()).readonly(),
      routes: z.array(route).readonly(),
    })
    .exactOptional(),
  sandboxKey: z.string().exactOptional(),
  /** The sweep has seen the container's namespace at `sandboxKey`. */
  sandboxSeen: z.literal(true).exactOptional(),
});

/** See {@link networkSchema}. */
export type NetworkState = z.output<typeof networkSchema>;

/** See {@link endpointSchema}. */
export type EndpointState = z.output<typeof endpointSchema>;
