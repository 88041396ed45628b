import * as z from "zod";
import { validateIfName } from "#cni/names.ts";
import { optionProblems, plexusOptions } from "#docker/networks/network-options.ts";
import { tryParseCidr, tryParseIp } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { parseWith } from "#lib/parsing/parse-with.ts";
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
 * @throws Error naming every invalid option; CniError 4 for an invalid interface name
 */
export function parseEndpointOptions(options: Readonly<Record<string, unknown>>) {
  const parsed = plexusSchema.safeParse(plexusOptions(options));
  if (!parsed.success) throw new Error(optionProblems(parsed.error, "--driver-opt"));
  const published = parseWith(portMap, options[portMapKey], portMapKey);
  const wanted = options[ifNameKey];
  const ifName = typeof wanted === "string" && wanted !== "" ? wanted : undefined;
  if (ifName !== undefined) validateIfName(ifName);
  const { ips = [], bandwidth } = parsed.data;
  return { ips, bandwidth, published, ifName };
}

const multipliers: Readonly<Record<string, number>> = { "": 1, k: 1e3, m: 1e6, g: 1e9 };

/**
 * Reads `10M`, or `ingress=10M,egress=1M`: bits per second; 0 is no limit. Docker lowercases some
 * options.
 */
function parseBandwidth(text: string, context: z.RefinementCtx): Bandwidth | undefined {
  const both = text.includes("=") ? text : `ingress=${text},egress=${text}`;
  const rates = both.toLowerCase().split(",").map(parseRate);
  const known = rates.filter((each) => each !== undefined);
  if (known.length !== rates.length) {
    context.addIssue("must be a rate such as 10M, or ingress=RATE,egress=RATE");
  }
  const limits = known.filter(([, rate]) => rate !== 0);
  return limits.length === 0 ? undefined : Object.fromEntries(limits);
}

function parseRate(text: string): [key: string, rate: number] | undefined {
  const [, direction, digits, unit = ""] =
    /^(ingress|egress)=\s*(\d{1,12})([kmg]?)\s*$/.exec(text) ?? [];
  const rate = Number(digits) * (multipliers[unit] ?? 0);
  return Number.isSafeInteger(rate) ? [`${direction}Rate`, rate] : undefined;
}
