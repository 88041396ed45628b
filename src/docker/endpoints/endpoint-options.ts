import * as z from "zod";
import { validateIfName } from "#cni/names.ts";
import { DriverError } from "#docker/driver-error.ts";
import { optionProblems, ownOptions } from "#docker/networks/network-options.ts";
import { tryParseCidr, tryParseIp } from "#lib/ip.ts";
import type { Bandwidth, PortMapping } from "#npwg/selection/network-selection.ts";

/** A published port as the user wrote it: the host's port may be left to the driver. */
export interface PublishedPort {
  readonly containerPort: number;
  readonly protocol: PortMapping["protocol"];
  readonly hostIP?: string;
  /** The first and the last port of the host that may be taken; 0 and 0 = any. */
  readonly hostPort: number;
  readonly hostPortEnd: number;
}

/** What a container asks of its endpoint. */
export interface EndpointOptions {
  /** `--driver-opt plexus.ips=…`, as written. */
  readonly ips: readonly string[];
  readonly bandwidth?: Bandwidth;
  readonly published: readonly PublishedPort[];
  /** `--driver-opt com.docker.network.endpoint.ifname=…`. */
  readonly ifName?: string;
}

const portMapKey = "com.docker.network.portmap";
const ifNameKey = "com.docker.network.endpoint.ifname";

/** IANA's numbers, as engines send them. */
const protocols: Readonly<Record<number, PortMapping["protocol"]>> = {
  6: "tcp",
  17: "udp",
  132: "sctp",
};

const port = z.int().min(0).max(65_535);

const portMap = z
  .array(
    z.object({
      Proto: z.int().refine((proto) => proto in protocols, { error: "must be 6, 17 or 132" }),
      Port: port.min(1),
      HostIP: z.string().nullish(),
      HostPort: port,
      HostPortEnd: port.optional(),
    }),
  )
  .nullish()
  .transform((value) => value ?? []);

const ips = z
  .string()
  .transform((text) => text.split(",").map((ip) => ip.trim()))
  .refine((list) => list.every((ip) => (tryParseCidr(ip) ?? tryParseIp(ip)) !== undefined), {
    error: "must be addresses with commas between them",
  });

const ownSchema = z.strictObject({
  ips: ips.exactOptional(),
  bandwidth: z.string().transform(parseBandwidth).exactOptional(),
});

/**
 * Reads the options of an endpoint; engines add keys of their own, which are passed over.
 * @throws DriverError naming every option that is wrong or that Plexus does not have; CniError 4 for the name of an
 *   interface that is none
 */
export function parseEndpointOptions(options: Readonly<Record<string, unknown>>): EndpointOptions {
  const own = ownSchema.safeParse(ownOptions(options, "plexus."));
  if (!own.success) throw new DriverError(optionProblems(own.error, "--driver-opt"));
  const mappings = portMap.safeParse(options[portMapKey]);
  if (!mappings.success) {
    const [issue] = mappings.error.issues;
    throw new DriverError(`${portMapKey}: ${issue?.path.join(".")}: ${issue?.message}`);
  }
  const ifName = options[ifNameKey];
  if (typeof ifName === "string" && ifName !== "") validateIfName(ifName);
  return {
    ips: [],
    ...own.data,
    published: mappings.data.map(publishedPort),
    ...(typeof ifName === "string" && ifName !== "" ? { ifName } : {}),
  };
}

function publishedPort(mapping: z.output<typeof portMap>[number]): PublishedPort {
  const { Proto, Port, HostIP, HostPort, HostPortEnd } = mapping;
  return {
    containerPort: Port,
    protocol: protocols[Proto] ?? "tcp",
    hostPort: HostPort,
    hostPortEnd: Math.max(HostPort, HostPortEnd ?? HostPort),
    ...(HostIP ? { hostIP: HostIP } : {}),
  };
}

const multipliers: Readonly<Record<string, number>> = { "": 1, k: 1e3, m: 1e6, g: 1e9 };

/** Reads `10M`, or `ingress=10M,egress=1M`: bits per second. Docker writes some options in lower case. */
function parseBandwidth(text: string, context: z.RefinementCtx): Bandwidth {
  const parts = text.toLowerCase().split(",");
  const both = parts.length === 1 ? parseRate(text.toLowerCase()) : undefined;
  if (both !== undefined) return { ingressRate: both, egressRate: both };
  const rates = new Map(parts.map((part) => [part.split("=")[0] ?? "", part.split("=")[1] ?? ""]));
  const [ingress, egress] = ["ingress", "egress"].map((key) => parseRate(rates.get(key) ?? ""));
  const known = (ingress === undefined ? 0 : 1) + (egress === undefined ? 0 : 1);
  if (known === 0 || known !== rates.size) {
    context.addIssue("must be a rate such as 10M, or ingress=RATE,egress=RATE");
  }
  return {
    ...(ingress === undefined ? {} : { ingressRate: ingress }),
    ...(egress === undefined ? {} : { egressRate: egress }),
  };
}

function parseRate(text: string): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,12})([kmg]?)$/.exec(text.trim()) ?? [];
  const rate = digits === undefined ? 0 : Number(digits) * (multipliers[unit] ?? 0);
  return rate > 0 ? rate : undefined;
}
