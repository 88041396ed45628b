import * as z from "zod";
import { type IpFamily, tryParseCidr, tryParseIp } from "#lib/ip.ts";

/*
 * The bodies that dockerd sends (libnetwork's remote driver protocol). Known members are checked
 * strictly. Unknown members are ignored: every Docker Engine release adds some. Go writes an empty
 * list or map as null, and an absent value as an empty string.
 */

/** Of a network or an endpoint; part of file names, and the container ID of CNI calls. */
const id = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/, {
  error: "must be an identifier of up to 128 letters, digits, _, . and -",
});

const options = z
  .record(z.string(), z.unknown())
  .nullish()
  .transform((value) => value ?? {});

/** A string; null and "" mean that there is none. */
function optionalText(isValid: (text: string) => boolean, error: string) {
  return z
    .string()
    .refine((text) => text === "" || isValid(text), { error })
    .nullish()
    .transform((text) => (text === "" || text === null ? undefined : text));
}

function isCidr(family: IpFamily): (text: string) => boolean {
  return (text) => tryParseCidr(text)?.family === family;
}

/** dockerd sends the prefix length; the protocol's documentation has none. */
function isAddress(family: IpFamily): (text: string) => boolean {
  return (text) => {
    const address = tryParseCidr(text)?.address ?? tryParseIp(text);
    return address !== undefined && address.includes(":") === (family === 6);
  };
}

function ipamData(family: IpFamily) {
  const address = `must be an IPv${family} address`;
  const one = z.object({
    AddressSpace: z.string().optional(),
    Pool: optionalText(isCidr(family), `must be an IPv${family} CIDR`),
    Gateway: optionalText(isAddress(family), address),
    AuxAddresses: z
      .record(z.string(), z.string().refine(isAddress(family), { error: address }))
      .nullish(),
  });
  return z
    .array(one)
    .nullish()
    .transform((value) => value ?? []);
}

const networkData = {
  NetworkID: id,
  Options: options,
  IPv4Data: ipamData(4),
  IPv6Data: ipamData(6),
};

const endpointKey = { NetworkID: id, EndpointID: id };

const requestedInterface = z.preprocess(
  (value) => value ?? {},
  z.object({
    Address: optionalText(isCidr(4), "must be an IPv4 CIDR"),
    AddressIPv6: optionalText(isCidr(6), "must be an IPv6 CIDR"),
    MacAddress: optionalText(
      (text) => /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i.test(text),
      "must be a MAC address",
    ),
  }),
);

const sandboxKey = z.string().refine((path) => path.startsWith("/") && !path.includes("\0"), {
  error: "must be an absolute path",
});

/** A notification about another node, which changes nothing. */
const discovery = z.object({ DiscoveryType: z.int() });

export const withoutBody = z.object({});

/** The body of each method. */
export const requestSchemas = {
  "Plugin.Activate": withoutBody,
  "NetworkDriver.GetCapabilities": withoutBody,
  "NetworkDriver.GwAllocCheck": z.object({ Options: options }),
  "NetworkDriver.AllocateNetwork": z.object(networkData),
  "NetworkDriver.FreeNetwork": z.object({ NetworkID: id }),
  "NetworkDriver.CreateNetwork": z.object(networkData),
  "NetworkDriver.DeleteNetwork": z.object({ NetworkID: id }),
  "NetworkDriver.CreateEndpoint": z.object({
    ...endpointKey,
    Interface: requestedInterface,
    Options: options,
  }),
  "NetworkDriver.EndpointOperInfo": z.object(endpointKey),
  "NetworkDriver.DeleteEndpoint": z.object(endpointKey),
  "NetworkDriver.Join": z.object({ ...endpointKey, SandboxKey: sandboxKey, Options: options }),
  "NetworkDriver.Leave": z.object(endpointKey),
  "NetworkDriver.ProgramExternalConnectivity": z.object({ ...endpointKey, Options: options }),
  "NetworkDriver.RevokeExternalConnectivity": z.object(endpointKey),
  "NetworkDriver.DiscoverNew": discovery,
  "NetworkDriver.DiscoverDelete": discovery,
} as const;

/** A method, as in its URL after the slash. */
export type Method = keyof typeof requestSchemas;

/** The body of a method. */
export type RequestOf<M extends Method> = z.output<(typeof requestSchemas)[M]>;
