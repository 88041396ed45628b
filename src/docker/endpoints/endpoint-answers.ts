import type { InterfaceAnswer, JoinAnswer } from "#docker/driver/answers.ts";
import { DriverError } from "#docker/driver-error.ts";
import type { EndpointState, NetworkState } from "#docker/state.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { hostIfName } from "./endpoint-host.ts";
import { addressesToHandOver, hasSubnetRoute, routesToHandOver } from "./hand-over.ts";

/**
 * What the engine does not know of an endpoint yet; it refuses a value that it has given itself.
 * @throws DriverError when the engine could not set the interface's addresses as they are
 */
export function interfaceAnswer({ requested, link, displayName }: EndpointState): InterfaceAnswer {
  if (link === undefined) return {};
  const { address, addressIPv6 } = addressesToHandOver({ ...link, ifName: "" });
  for (const chosen of [requested.Address, requested.AddressIPv6]) {
    if (chosen !== undefined && !hasSubnetRoute(chosen, link.routes)) {
      throw new DriverError(
        `network ${displayName} reaches its own subnet by a gateway, which Docker's IPAM cannot express; create it with --ipam-driver null`,
      );
    }
  }
  // The kernel gives all ipvlan interfaces of a device its MAC, and none of their own.
  const mac = link.kind === "ipvlan" ? undefined : link.mac;
  return omitUndefined({
    Address: requested.Address === undefined ? address : undefined,
    AddressIPv6: requested.AddressIPv6 === undefined ? addressIPv6 : undefined,
    MacAddress: requested.MacAddress === undefined ? mac : undefined,
  });
}

/** How the engine takes an endpoint over in the staged mode. */
export function joinAnswer(endpoint: EndpointState, { options }: NetworkState): JoinAnswer {
  const choice = options.internal ? "none" : options.gateway;
  return {
    InterfaceName: omitUndefined({
      SrcName: hostIfName(endpoint.id),
      DstPrefix: options.ifPrefix,
      DstName: endpoint.wantedIfName,
    }),
    ...routesToHandOver(endpoint.link?.routes ?? [], choice),
  };
}
