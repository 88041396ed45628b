import * as z from "zod";
import type { LinkRoute, LinkState } from "#docker/state.ts";
import { addressBits, anyDestination, type IpFamily } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/* The members of `ip -j` output that the driver uses. */

const addresses = z.array(
  z.object({
    ifname: z.string().optional(),
    address: z.string().optional(),
    linkinfo: z.object({ info_kind: z.string().optional() }).optional(),
    addr_info: z
      .array(
        z.object({
          local: z.string().optional(),
          prefixlen: z.number().optional(),
          scope: z.string().optional(),
        }),
      )
      .default([]),
  }),
);

const routes = z.array(
  z.object({
    type: z.string().optional(),
    dst: z.string(),
    gateway: z.string().optional(),
    protocol: z.string().optional(),
    metric: z.number().default(0),
  }),
);

/** An interface without its routes. */
export type NamedLink = Omit<LinkState, "routes"> & { readonly ifName: string };

/** The interfaces from `ip -d address show`, or without addresses from `ip link show`. @throws ZodError for other output */
export function readLinks(shown: unknown): NamedLink[] {
  return addresses.parse(shown).map(({ ifname = "", address, linkinfo, addr_info }) => {
    const global = addr_info.filter(({ scope }) => scope === "global");
    return omitUndefined({
      ifName: ifname,
      mac: address,
      kind: linkinfo?.info_kind ?? "",
      addresses: global.map(({ local, prefixlen }) => `${local}/${prefixlen}`),
    });
  });
}

/** The unicast routes of one family from `ip route show`. @throws ZodError for other output */
export function readRoutes(shown: unknown, family: IpFamily): LinkRoute[] {
  return routes
    .parse(shown)
    .filter(({ type }) => type === undefined || type === "unicast")
    .map(({ dst, gateway, protocol, metric }) =>
      omitUndefined({
        dst: dst === "default" ? anyDestination[family] : withPrefix(dst, family),
        gateway,
        metric,
        isFromAddress: protocol === "kernel",
      }),
    );
}

function withPrefix(dst: string, family: IpFamily): string {
  return dst.includes("/") ? dst : `${dst}/${addressBits[family]}`;
}
