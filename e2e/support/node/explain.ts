import { execa } from "execa";
import { distPath, nodeBinary } from "../paths.ts";

/** What tests read of an explanation. */
type Advice = Readonly<{ finding: string; sentence: string; ok: boolean }>;

/** The advice of `plexusctl explain` for a pod, `NAMESPACE/NAME`, from the plexusd with this socket. */
export async function explained(socket: string, pod: string): Promise<Advice> {
  const command = [distPath("plexusctl.js"), "explain", "-o", "json", "--socket", socket, pod];
  const { stdout } = await execa(nodeBinary(), command, { reject: false });
  return (JSON.parse(stdout) as { advice: Advice }).advice;
}
