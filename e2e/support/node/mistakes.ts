import { hostLocal } from "../networks.ts";

/** A mistake in a definition, and the error of its plugin. */
interface Mistake {
  readonly name: string;
  readonly plugins: readonly object[];
  readonly error: RegExp;
}

function mistake(name: string, error: RegExp, ...plugins: readonly object[]): Mistake {
  return { name, error, plugins };
}

const bridge = (extra: object): object => ({
  ...{ type: "bridge", bridge: "br77", ipam: hostLocal(77) },
  ...extra,
});
const addresses = (extra: object): object => ({ type: "host-local", ...extra });
const subnet = "10.77.0.0/24";
const unset = addresses({});
const outside = addresses({ subnet, rangeStart: "10.78.0.5" });
const noMask = { type: "static", addresses: [{ address: "10.77.0.5" }] };
const sysctlText = { type: "tuning", sysctl: "net.core.somaxconn=500" };

/** Ordinary mistakes with a link of the node as master. */
interface Mistakes {
  /** Their plugin keeps only its interface, and its IPAM plugin's DEL succeeds. */
  readonly refused: readonly Mistake[];
  /** Something may be left, so the grace period applies. */
  readonly passing: readonly Mistake[];
}

/** Ordinary mistakes in definitions of the reference plugins. */
export function mistakesOn(master: string): Mistakes {
  const macvlan = (extra: object): object => ({
    ...{ type: "macvlan", master, ipam: hostLocal(77) },
    ...extra,
  });
  const vlan = { type: "vlan", vlanId: 5, ipam: hostLocal(77) };
  const refused: readonly Mistake[] = [
    mistake("vlan-5000", /invalid VLAN ID 5000/, bridge({ vlan: 5000 })),
    mistake("is-gateway-text", /cannot unmarshal string/, bridge({ isGateway: "true" })),
    mistake("no-master", /"master" field is required/, vlan),
    mistake("unknown-mode", /unknown macvlan mode/, macvlan({ mode: "brigde" })),
    mistake("no-such-master", /Link not found/, macvlan({ master: "eth7" })),
    mistake("misspelt-type", /failed to find plugin/, bridge({ type: "brigde" })),
    mistake("static-no-mask", /CIDR notation/, bridge({ ipam: noMask })),
    // The plugin after it never runs.
    mistake("both-wrong", /invalid VLAN ID 5000/, bridge({ vlan: 5000 }), sysctlText),
  ];
  const passing: readonly Mistake[] = [
    mistake(
      "dhcp-without-daemon",
      /error dialing DHCP daemon/,
      macvlan({ ipam: { type: "dhcp" } }),
    ),
    mistake("no-subnet", /no IP ranges specified/, bridge({ ipam: unset })),
    mistake("range-start", /RangeStart 10.78.0.5 not in network/, bridge({ ipam: outside })),
    mistake(
      "no-mask",
      /invalid CIDR address/,
      bridge({ ipam: addresses({ subnet: "10.77.0.0" }) }),
    ),
    mistake("misspelt-ipam", /failed to find plugin/, bridge({ ipam: { type: "hostlocal" } })),
    // This one leaves its interface behind when it fails.
    mistake("macvlan-no-subnet", /no IP ranges specified/, macvlan({ ipam: unset })),
    // The plugin before it has attached something.
    mistake("tuning-text", /plugin type="tuning".*cannot unmarshal string/, bridge({}), sysctlText),
  ];
  return { refused, passing };
}
