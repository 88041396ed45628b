import type { Method, RequestOf } from "./requests.ts";

/* The answers of libnetwork's remote driver protocol; requests.ts has the requests. */

/** A static route of a Join answer: through a gateway, or on the link. */
export type StaticRoute =
  | { readonly Destination: string; readonly RouteType: 0; readonly NextHop: string }
  | { readonly Destination: string; readonly RouteType: 1 };

/** Addresses of an endpoint. Members of the request are absent: dockerd rejects an echo. */
export interface InterfaceAnswer {
  readonly Address?: string;
  readonly AddressIPv6?: string;
  readonly MacAddress?: string;
}

/** How dockerd configures an endpoint's interface when a container joins. */
export interface JoinAnswer {
  /** Empty when the interface is in the container already. */
  readonly InterfaceName: {
    readonly SrcName?: string;
    readonly DstPrefix?: string;
    /** The whole name; Docker Engine before 29 ignores it. */
    readonly DstName?: string;
  };
  readonly Gateway?: string;
  readonly GatewayIPv6?: string;
  readonly StaticRoutes: readonly StaticRoute[];
  /** Whether dockerd leaves out the interface on its gateway network (docker_gwbridge). */
  readonly DisableGatewayService: boolean;
}

/** What the user decides about the driver's capabilities. */
export interface Capabilities {
  readonly Scope: "local" | "global";
  readonly ConnectivityScope: "local" | "global";
}

/** The methods of the protocol. Each throws an Error whose message Docker shows to its user. */
export type NetworkDriver = {
  readonly [M in Method]: (request: RequestOf<M>) => Promise<object>;
};
