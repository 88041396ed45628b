/** A static route of a Join answer: by a gateway, or on the link. */
export type StaticRoute =
  | { readonly Destination: string; readonly RouteType: 0; readonly NextHop: string }
  | { readonly Destination: string; readonly RouteType: 1 };

/** Addresses of an endpoint. Members that the request brought are absent: the engine refuses an echo. */
export interface InterfaceAnswer {
  readonly Address?: string;
  readonly AddressIPv6?: string;
  readonly MacAddress?: string;
}

/** What the engine is to do with an endpoint's interface when a container joins. */
export interface JoinAnswer {
  /** Empty when the interface is in the container already. */
  readonly InterfaceName: {
    readonly SrcName?: string;
    readonly DstPrefix?: string;
    /** The whole name, which engines before 29 ignore. */
    readonly DstName?: string;
  };
  readonly Gateway?: string;
  readonly GatewayIPv6?: string;
  readonly StaticRoutes: readonly StaticRoute[];
  /** Whether the engine leaves out the interface on its own gateway network (docker_gwbridge). */
  readonly DisableGatewayService: boolean;
}

/** What the driver says of itself. */
export interface Capabilities {
  readonly Scope: "local" | "global";
  readonly ConnectivityScope: "local" | "global";
  /** That it answers GwAllocCheck, which engines from 28 on send. */
  readonly GwAllocChecker: true;
}
