import * as z from "zod";
import { isJsonObject, type JsonObject } from "#lib/json.ts";

/* What the driver keeps on disk: dockerd describes a network once, when it is created. */

const json = z.custom<JsonObject>(isJsonObject);

const ipamData = z.array(
  z.object({
    Gateway: z.string().optional(),
    Pool: z.string().optional(),
  }),
);

/** A Docker network that this driver serves. */
export const networkSchema = z.object({
  schemaVersion: z.literal(1),
  id: z.string(),
  displayName: z.string(),
  /** Its `-o` options, and what dockerd sends besides. */
  options: z.object({
    /** A definition, a file or a configuration in JSON. */
    network: z.string(),
    /** How an endpoint's interface gets into its container; docs/user/docker.md, "Modes". */
    mode: z.enum(["staged", "direct"]),
    /** Who sets a container's default route. */
    gateway: z.enum(["auto", "none", "docker"]),
    /** Of the names of interfaces in containers. */
    ifPrefix: z.string(),
    /** `docker network create --internal`: no default route. */
    internal: z.boolean(),
  }),
  /** The network configuration list at the time when the network was created. */
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
  /** With prefix length. */
  dst: z.string(),
  gateway: z.string().exactOptional(),
  metric: z.number(),
  /** The kernel added it for an address. */
  isFromAddress: z.boolean(),
});

const link = z.object({
  mac: z.string().exactOptional(),
  /** `veth`, `macvlan` …; "" for devices. */
  kind: z.string(),
  /** Of global scope, with prefix length. */
  addresses: z.array(z.string()).readonly(),
  /** The unicast routes of the main table over the interface. */
  routes: z.array(route).readonly(),
});

/** An endpoint, from before its first plugin runs until it is fully detached. */
export const endpointSchema = z.object({
  schemaVersion: z.literal(1),
  networkId: z.string(),
  id: z.string(),
  displayName: z.string(),
  mode: z.enum(["staged", "direct"]),
  /** The boot in which it was created: no interface survives a reboot. */
  bootId: z.string(),
  /**
   * `creating`: plugins may have run. `created`: waits for Join, attached in staged mode. `joined`:
   * handed over to a container. `left`: taken back. `deleting`: being detached.
   */
  phase: z.enum(["creating", "created", "joined", "left", "deleting"]),
  /** ISO 8601: when the phase began. */
  since: z.string(),
  /** CNI_IFNAME, CNI_NETNS and the configuration of its CNI calls. */
  ifName: z.string(),
  netns: z.string(),
  conf: json,
  portMappings: z.array(portMapping).readonly(),
  /** Endpoints that publish its ports, if they belong to the same container. */
  sharesPortsWith: z.array(z.string()).readonly(),
  /** The addresses and MAC that dockerd requested; absent where the network chooses. */
  requested: z.object({
    Address: z.string().exactOptional(),
    AddressIPv6: z.string().exactOptional(),
    MacAddress: z.string().exactOptional(),
  }),
  /** The interface name in the container that the user requested. */
  wantedIfName: z.string().exactOptional(),
  /** The interface as the kernel showed it after the ADD. */
  link: link.exactOptional(),
  sandboxKey: z.string().exactOptional(),
  /** The driver has seen the container's namespace at `sandboxKey`. */
  sandboxSeen: z.literal(true).exactOptional(),
});

export type NetworkState = z.output<typeof networkSchema>;

/** A network interface as the kernel shows it. */
export type LinkState = z.output<typeof link>;

/** A route over an interface. */
export type LinkRoute = z.output<typeof route>;

export type EndpointState = z.output<typeof endpointSchema>;
