import { connect } from "node:net";
import { encodeFrame, type Frame, FrameReader, FrameType } from "#protocol/frame.ts";
import {
  type DoneMessage,
  decodeDone,
  decodeExec,
  encodeRequest,
  type RequestMessage,
} from "#protocol/messages.ts";

/** The kernel's answer to a dump of nothing: NLMSG_DONE with NLM_F_MULTI (linux/netlink.h). */
const emptyDump = Buffer.from([20, 0, 0, 0, 3, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

/**
 * Makes a call as a shim that runs no plugin and asks no kernel: interfaces are only in results, as
 * those of a user-space driver.
 * @throws Error when the connection ends without an answer
 */
export async function callByTestShim(
  socketPath: string,
  request: RequestMessage,
): Promise<DoneMessage> {
  const socket = connect(socketPath);
  socket.write(encodeRequest(request));
  const reader = new FrameReader();
  for await (const chunk of socket) {
    for (const frame of reader.push(chunk)) {
      if (frame.type === FrameType.Done) return decodeDone(frame);
      const answer = answerTo(frame);
      if (answer !== undefined) socket.write(answer);
    }
  }
  throw new Error("plexusd closed the connection without an answer");
}

function answerTo(frame: Frame): Buffer | undefined {
  if (frame.type === FrameType.Netlink)
    return encodeFrame(FrameType.NetlinkResult, ["0", emptyDump, "", "done"]);
  if (frame.type !== FrameType.Exec) return undefined;
  return encodeFrame(FrameType.ExecResult, ["exited", "0", outputOf(frame), "", "", "1000"]);
}

/** What a plugin prints. */
function outputOf(frame: Frame): string {
  const { CNI_COMMAND, CNI_IFNAME: name, CNI_NETNS: sandbox } = decodeExec(frame).env;
  if (CNI_COMMAND !== "ADD") return "";
  const interfaces = [{ name, mac: "02:00:00:00:00:01", sandbox }];
  return JSON.stringify({ cniVersion: "1.0.0", interfaces, ips: [{ address: "192.0.2.1/24" }] });
}
