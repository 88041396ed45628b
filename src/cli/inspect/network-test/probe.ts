import { createSocket, type Socket } from "node:dgram";
import { on, once } from "node:events";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { ipFamily, parseIp } from "#lib/ip.ts";
import { testPort } from "./answer.ts";
import type { TestPod } from "./test-pods.ts";

/** What is wrong between two pods, by a word for scripts. */
export type Finding =
  | "DuplicateAddress"
  | "NoAnswer"
  | "OtherHostAnswered"
  | "OtherInterface"
  | "PacketTooBig";

/** One pod's test of an address of another pod. */
export interface Probe {
  readonly from: string;
  readonly to: string;
  readonly address: string;
  /** Of the sender's interface: the size of the largest packet sent. */
  readonly mtu: number;
  readonly finding: Finding | "ok";
  /** What was seen, in words; empty if all is well. */
  readonly detail: string;
}

type Outcome = Pick<Probe, "finding" | "detail">;

/** Who answered a datagram, or why there is no answer. */
type Answer = { readonly by: string } | { readonly error: string };

const attempts = 3;
const answerMs = 1000;
const smallBytes = 64;
/** The headers of IP, without options, and of UDP. */
const headerBytes = { 4: 20 + 8, 6: 40 + 8 } as const;
const maxPacketBytes = 65_535;

/** Tests every address of the other pods from this one, all at the same time. */
export async function probePods(own: TestPod, pods: readonly TestPod[]): Promise<Probe[]> {
  const mtu = Number(await readFile(`/sys/class/net/${own.interface}/mtu`, "utf8"));
  const others = pods.filter(({ name }) => name !== own.name);
  const targets = others.flatMap((pod) => pod.addresses.map((address) => ({ pod, address })));
  return Promise.all(
    targets.map(async ({ pod, address }) => ({
      ...{ from: own.name, to: pod.name, address, mtu },
      ...(own.addresses.includes(address)
        ? found("DuplicateAddress", "both pods have this address")
        : await probe(own, { pod, address, mtu })),
    })),
  );
}

/** A pod's address, and the size of the largest packet to send to it. */
interface Target {
  readonly pod: TestPod;
  readonly address: string;
  readonly mtu: number;
}

async function probe(own: TestPod, target: Target): Promise<Outcome> {
  const family = ipFamily(target.address);
  const socket = createSocket(`udp${family}`);
  // ask() reads errors. One that comes between two questions must not end the process.
  socket.on("error", () => undefined);
  try {
    // Without bind(): the kernel chooses the interface by its routes, and by it the source address.
    socket.connect(testPort, target.address);
    await once(socket, "connect");
    const source = parseIp(socket.address().address);
    if (!own.addresses.includes(source))
      return found("OtherInterface", `packets leave with the address ${source}`);
    return await exchange(socket, target);
  } catch (error) {
    return found("OtherInterface", `no route: ${(error as Error).message}`);
  } finally {
    socket.close();
  }
}

async function exchange(socket: Socket, target: Target): Promise<Outcome> {
  const { pod, address, mtu } = target;
  const small = await ask(socket, smallBytes);
  if ("error" in small) return noAnswer(small.error, target);
  if (small.by !== pod.name) return found("OtherHostAnswered", `${small.by} answered`);
  // Linux forbids routers to fragment a datagram that fits its interface.
  const bytes = Math.min(mtu, maxPacketBytes) - headerBytes[ipFamily(address)];
  const large = await ask(socket, bytes);
  return "error" in large
    ? found("PacketTooBig", `small packets pass, those of ${mtu} bytes do not: ${large.error}`)
    : found("ok", "");
}

/** An address that another host has, too, may have resolved to that host. */
async function noAnswer(error: string, { pod, address }: Target): Promise<Outcome> {
  const mac = macOf(await readFile("/proc/net/arp", "utf8"), address);
  return mac === undefined || pod.mac === "" || mac === pod.mac.toLowerCase()
    ? found("NoAnswer", error)
    : found("OtherHostAnswered", `its MAC address is ${mac}, that of the pod ${pod.mac}`);
}

/** The MAC address that the kernel's table has for an IPv4 address. */
function macOf(arpTable: string, address: string): string | undefined {
  const rows = arpTable.split("\n").map((line) => line.split(/ +/));
  const mac = rows.find(([ip]) => ip === address)?.[3];
  return mac === "00:00:00:00:00:00" ? undefined : mac?.toLowerCase();
}

/** What errors of a datagram mean. */
const meanings: Readonly<Record<string, string>> = {
  ABORT_ERR: "no answer",
  ECONNREFUSED: "the pod answers that nothing listens there",
  EHOSTUNREACH: "no host answers for this address",
  EMSGSIZE: "a router on the way has a smaller MTU",
};

/** Sends datagrams of this size, until one is answered. */
async function ask(socket: Socket, bytes: number): Promise<Answer> {
  let error = "";
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const signal = AbortSignal.timeout(answerMs);
    try {
      socket.send(Buffer.alloc(bytes));
      for await (const [message] of on(socket, "message", { signal })) {
        const [by = "", size] = String(message).split(" ");
        // Not a late answer to another size.
        if (size === String(bytes)) return { by };
      }
    } catch (caught) {
      const { code = "", message } = caught as NodeJS.ErrnoException;
      error = meanings[code] ?? message;
      // From now on, the kernel would fragment datagrams of this size.
      if (code === "EMSGSIZE") break;
      // A refusal comes at once: the other pod may still be starting.
      if (!signal.aborted) await sleep(answerMs);
    }
  }
  return { error };
}

function found(finding: Probe["finding"], detail: string): Outcome {
  return { finding, detail };
}
