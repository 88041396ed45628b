import { hostLocal } from "../networks.ts";

/** A mistake in a definition, and what its plugin says of it. */
interface Mistake {
  readonly name: string;
  readonly plugins: readonly object[];
  readonly error: RegExp;
}

const bridge = (extra: object): object => ({
  ...{ type: "bridge", bridge: "br77", ipam: hostLocal(77) },
  ...extra,
});
const addresses = (extra: object): object => ({ type: "host-local", ...extra });
const subnet = "10.77.0.0/24";

/** Ordinary mistakes with a link of the node as master. */
export interface Mistakes {
  /** Errors that can only be the definition's. Of most the plugin complains in DEL as in ADD. */
  readonly refused: readonly Mistake[];
  /** What these say may as well be the node's fault, so they have the grace period. */
  readonly passing: readonly Mistake[];
}

/** Ordinary mistakes in definitions of the reference plugins. */
export function mistakesOn(master: string): Mistakes {
  const macvlan = (extra: object): object => ({
    ...{ type: "macvlan", master, ipam: hostLocal(77) },
    ...extra,
  });
  const refused: readonly Mistake[] = [
    {
      name: "no-subnet",
      plugins: [bridge({ ipam: addresses({}) })],
      error: /no IP ranges specified/,
    },
    {
      name: "range-start",
      plugins: [bridge({ ipam: addresses({ subnet, rangeStart: "10.78.0.5" }) })],
      error: /RangeStart 10.78.0.5 not in network/,
    },
    { name: "vlan-5000", plugins: [bridge({ vlan: 5000 })], error: /invalid VLAN ID 5000/ },
    {
      name: "is-gateway-text",
      plugins: [bridge({ isGateway: "true" })],
      error: /cannot unmarshal string/,
    },
    {
      name: "no-master",
      plugins: [{ type: "vlan", vlanId: 5, ipam: hostLocal(77) }],
      error: /"master" field is required/,
    },
    {
      name: "no-mask",
      plugins: [bridge({ ipam: addresses({ subnet: "10.77.0.0" }) })],
      error: /invalid CIDR address/,
    },
    { name: "unknown-mode", plugins: [macvlan({ mode: "brigde" })], error: /unknown macvlan mode/ },
    {
      name: "misspelt-type",
      plugins: [bridge({ type: "brigde" })],
      error: /failed to find plugin/,
    },
    {
      name: "misspelt-ipam",
      plugins: [bridge({ ipam: { type: "hostlocal" } })],
      error: /failed to find plugin/,
    },
    {
      name: "static-no-mask",
      plugins: [bridge({ ipam: { type: "static", addresses: [{ address: "10.77.0.5" }] } })],
      error: /CIDR notation/,
    },
    // This one leaves its interface behind when it fails.
    {
      name: "macvlan-no-subnet",
      plugins: [macvlan({ ipam: addresses({}) })],
      error: /no IP ranges specified/,
    },
    // The plugin before it has attached something.
    {
      name: "tuning-text",
      plugins: [bridge({}), { type: "tuning", sysctl: "net.core.somaxconn=500" }],
      error: /plugin type="tuning".*cannot unmarshal string/,
    },
    // The plugin after it never runs.
    {
      name: "both-wrong",
      plugins: [bridge({ vlan: 5000 }), { type: "tuning", sysctl: "net.core.somaxconn=500" }],
      error: /invalid VLAN ID 5000/,
    },
  ];

  const passing: readonly Mistake[] = [
    {
      name: "dhcp-without-daemon",
      plugins: [macvlan({ ipam: { type: "dhcp" } })],
      error: /error dialing DHCP daemon/,
    },
    { name: "no-such-master", plugins: [macvlan({ master: "eth7" })], error: /Link not found/ },
  ];
  return { refused, passing };
}
