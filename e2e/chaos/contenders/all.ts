import type { Fault } from "../fault.ts";
import type { Contender, ContenderParts } from "./contender.ts";
import { multusPaths, multusThick, multusThin } from "./multus.ts";
import { plexus } from "./plexus.ts";

/** What has no counterpart in Multus cannot happen to it. */
const multusCanHave = ({ target, action }: Fault): boolean =>
  target !== "standalone" && action !== "previous-release";

/** Those that can take part, whether what they need is given, and what can happen to them. */
export const contenders: readonly {
  readonly name: string;
  isGiven(): boolean;
  canHave(fault: Fault): boolean;
  make(parts: ContenderParts): Promise<Contender>;
}[] = [
  { name: "Plexus", isGiven: () => true, canHave: () => true, make: plexus },
  {
    name: "Multus thin",
    isGiven: () => multusPaths.thin !== undefined,
    canHave: (fault) => fault.target !== "plexusd" && multusCanHave(fault),
    make: multusThin,
  },
  {
    name: "Multus thick",
    isGiven: () => multusPaths.shim !== undefined && multusPaths.daemon !== undefined,
    canHave: multusCanHave,
    make: multusThick,
  },
];
