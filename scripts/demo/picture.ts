import type { PodInterface } from "./interfaces.ts";

/** A network shared by two pods. */
export interface SharedNetwork {
  readonly network: string;
  /** The interfaces of the left pod and of the right one. */
  readonly ends: readonly [PodInterface, PodInterface];
  /** Round-trip times of a ping from the left and one from the right. */
  readonly pings: readonly [string, string];
}

/** Columns between the two boxes. */
const gap = 36;

/** Two pods side by side with the networks between them, in plain ASCII. */
export function picture(
  names: readonly [string, string],
  networks: readonly SharedNetwork[],
): string[] {
  const texts = networks.flatMap(({ ends }) => ends.flatMap(endLines));
  const width = Math.max(...texts.map(({ length }) => length));
  const box = (text: string): string => `| ${text.padEnd(width)} |`;
  const edge = (text: string): string => `+${text.padEnd(width + 2, "-")}+`;
  const space = " ".repeat(gap);
  const rows = networks.flatMap((network) => {
    const [left, right] = network.ends.map(endLines);
    const wire = wireLines(network);
    const lines = Math.max(left?.length ?? 0, right?.length ?? 0, wire.length);
    return Array.from({ length: lines }, (_, n) =>
      [box(left?.[n] ?? ""), wire[n] ?? space, box(right?.[n] ?? "")].join(""),
    );
  });
  const top = names.map((name) => edge(`- pod ${name} `));
  return [top.join(space), ...rows, [edge(""), edge("")].join(space)];
}

function endLines({ ifName, addresses }: PodInterface): string[] {
  return [ifName, ...addresses];
}

/** The wire with its kind, the network's name and the ping times. */
function wireLines({ network, ends: [left, right], pings }: SharedNetwork): string[] {
  const joint = left.joint === right.joint ? left.joint : `${left.joint}, ${right.joint}`;
  return [
    `<${centred(`[ ${joint} ]`, "-").slice(1, -1)}>`,
    centred(network, " "),
    centred(`ping > ${pings[0]}, < ${pings[1]}`, " "),
  ];
}

function centred(text: string, fill: string): string {
  const before = Math.floor((gap + text.length) / 2);
  return text.padStart(before, fill).padEnd(gap, fill);
}
