import { connect } from "node:net";
import { encodePayload } from "#netlink/codec.ts";
import { encodeFrame, type Frame, FrameReader, FrameType } from "#protocol/frame.ts";
import {
  type DoneMessage,
  decodeDone,
  decodeExec,
  encodeRequest,
  type RequestMessage,
} from "#protocol/messages.ts";

/** The kernel's numbers (linux/netlink.h, linux/rtnetlink.h). */
const netlink = { done: 3, newLink: 16, getLink: 18, multipart: 2, interfaceName: 3 };

/** A shim that runs no plugin and asks no kernel: what it answers only exists here. */
export class TestShim {
  readonly #interfaces = new Set(["lo"]);

  /** Makes a call. @throws Error when the connection ends without an answer */
  async call(socketPath: string, request: RequestMessage): Promise<DoneMessage> {
    const socket = connect(socketPath);
    socket.write(encodeRequest(request));
    const reader = new FrameReader();
    for await (const chunk of socket) {
      for (const frame of reader.push(chunk)) {
        if (frame.type === FrameType.Done) return decodeDone(frame);
        const answer = this.#answer(frame);
        if (answer !== undefined) socket.write(answer);
      }
    }
    throw new Error("plexusd closed the connection without an answer");
  }

  #answer(frame: Frame): Buffer | undefined {
    switch (frame.type) {
      case FrameType.Exec: {
        const exited = ["exited", "0", this.#run(frame), "", "", "1000"];
        return encodeFrame(FrameType.ExecResult, exited);
      }
      case FrameType.Netlink: {
        const [, request = Buffer.alloc(16)] = frame.fields;
        return encodeFrame(FrameType.NetlinkResult, ["0", this.#dump(request), "", "done"]);
      }
      case FrameType.Occupants:
        return encodeFrame(FrameType.OccupantsResult, [""]);
      default:
        return undefined;
    }
  }

  /** Every plugin adds and removes its interface. Returns what it prints. */
  #run(frame: Frame): string {
    const { env, stdin } = decodeExec(frame);
    const { CNI_COMMAND: command, CNI_IFNAME: name = "", CNI_NETNS: sandbox = "" } = env;
    if (command === "DEL") this.#interfaces.delete(name);
    if (command !== "ADD") return "";
    this.#interfaces.add(name);
    const { cniVersion } = JSON.parse(stdin);
    const interfaces = [{ name, mac: "02:00:00:00:00:01", sandbox }];
    return JSON.stringify({ cniVersion, interfaces, ips: [{ address: "192.0.2.1/24" }] });
  }

  /** Answers a dump of the interfaces; a dump of anything else is empty. */
  #dump(request: Buffer): Uint8Array {
    const isOfLinks = request.readUInt16LE(4) === netlink.getLink;
    const seq = request.readUInt32LE(8);
    const links = isOfLinks ? [...this.#interfaces].map(linkPayload) : [];
    return Buffer.concat([
      ...links.map((payload) => message(netlink.newLink, { seq, payload })),
      message(netlink.done, { seq, payload: Buffer.alloc(4) }),
    ]);
  }
}

function linkPayload(name: string): Uint8Array {
  const data = Buffer.from(`${name}\0`);
  return encodePayload(Buffer.alloc(16), [{ type: netlink.interfaceName, data }]);
}

function message(type: number, { seq, payload }: { seq: number; payload: Uint8Array }): Buffer {
  const header = Buffer.alloc(16);
  header.writeUInt32LE(header.length + payload.length, 0);
  header.writeUInt16LE(type, 4);
  header.writeUInt16LE(netlink.multipart, 6);
  header.writeUInt32LE(seq, 8);
  return Buffer.concat([header, payload]);
}
