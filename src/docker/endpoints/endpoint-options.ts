import * as z from "zod";
import { validateIfName } from "#cni/names.ts";
import { DriverError } from "#docker/driver/protocol.ts";
import { optionProblems, plexusOptions } from "#docker/networks/network-options.ts";
import { tryParseCidr, tryParseIp } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { Bandwidth, PortMapping } from "#npwg/selection/network-selection.ts";

const portMapKey = "com.docker.network.portmap";
const ifNameKey = "com.docker.network.endpoint.ifname";

/** By IANA's protocol numbers. */
const protocols: Readonly<Record<number, PortMapping["protocol"]>> = {
  6: "tcp",
  17: "udp",
  132: "sctp",
};

const port = z.int().min(0).max(65_535);

const portMap = z
  .array(
    z
      .object({
        Proto: z.int().refine((proto) => proto in protocols, { error: "must be 6, 17 or 132" }),
        Port: port.min(1),
        HostIP: z.string().nullish(),
        HostPort: port,
        HostPortEnd: port.optional(),
      })
      .transform(({ Proto, Port, HostIP, HostPort, HostPortEnd = HostPort }) =>
        omitUndefined({
          containerPort: Port,
          protocol: protocols[Proto] ?? "tcp",
          /** The first and last allowed port of the host; 0 and 0 for any. */
          hostPort: HostPort,
          hostPortEnd: Math.max(HostPort, HostPortEnd),
          hostIP: HostIP || undefined,
        }),
      ),
  )
  .nullish()
  .transform((value) => value ?? []);

/** A published port as the user wrote it: the driver may choose the host's port. */
export type PublishedPort = z.output<typeof portMap>[number];

const ips = z
  .string()
  .transform((text) => text.split(",").map((ip) => ip.trim()))
  .refine((list) => list.every((ip) => (tryParseCidr(ip) ?? tryParseIp(ip)) !== undefined), {
    error: "must be addresses with commas between them",
  });

const plexusSchema = z.strictObject({
  ips: ips.exactOptional(),
  bandwidth: z.string().transform(parseBandwidth).exactOptional(),
});

/** What a container requests of its endpoint. */
export type EndpointOptions = ReturnType<typeof parseEndpointOptions>;

/**
 * Reads the options of an endpoint. Docker's keys that Plexus does not use are ignored.
 * @throws DriverError naming every invalid option; CniError 4 for an invalid interface name
 */
export function parseEndpointOptions(options: Readonly<Record<string, unknown>>) {
  const parsed = plexusSchema.safeParse(plexusOptions(options));
  if (!parsed.success) throw new DriverError(optionProblems(parsed.error, "--driver-opt"));
  const published = portMap.safeParse(options[portMapKey]);
  if (!published.success) {
    const [issue] = published.error.issues;
    throw new DriverError(`${portMapKey}: ${issue?.path.join(".")}: ${issue?.message}`);
  }
  const wanted = options[ifNameKey];
  const ifName = typeof wanted === "string" && wanted !== "" ? wanted : undefined;
  if (ifName !== undefined) validateIfName(ifName);
  const { ips = [], bandwidth } = parsed.data;
  return { ips, bandwidth, published: published.data, ifName };
}

const multipliers: Readonly<Record<string, number>> = { "": 1, k: 1e3, m: 1e6, g: 1e9 };

/**
 * Reads `10M`, or `ingress=10M,egress=1M`: bits per second; 0 is no limit. Docker lowercases some
 * options.
 */
function parseBandwidth(text: string, context: z.RefinementCtx): Bandwidth | undefined {
  const parts = text.toLowerCase().split(",");
  const both = parts.length === 1 ? parseRate(text.toLowerCase()) : undefined;
  if (both !== undefined) return limits({ ingressRate: both, egressRate: both });
  const rates = new Map(parts.map((part) => [part.split("=")[0] ?? "", part.split("=")[1] ?? ""]));
  const bandwidth = omitUndefined({
    ingressRate: parseRate(rates.get("ingress") ?? ""),
    egressRate: parseRate(rates.get("egress") ?? ""),
  });
  const known = Object.keys(bandwidth).length;
  if (known === 0 || known !== rates.size) {
    context.addIssue("must be a rate such as 10M, or ingress=RATE,egress=RATE");
  }
  return limits(bandwidth);
}

function limits({ ingressRate = 0, egressRate = 0 }: Bandwidth): Bandwidth | undefined {
  const given = omitUndefined({
    ingressRate: ingressRate || undefined,
    egressRate: egressRate || undefined,
  });
  return Object.keys(given).length === 0 ? undefined : given;
}

function parseRate(text: string): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,12})([kmg]?)$/.exec(text.trim()) ?? [];
  const rate = digits === undefined ? Number.NaN : Number(digits) * (multipliers[unit] ?? 0);
  return Number.isSafeInteger(rate) ? rate : undefined;
}
