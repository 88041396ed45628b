import { CniErrorCode } from "#cni/error.ts";
import { world } from "../../world/world.ts";
import { InheritedLock, type LockedFile, type LockKind, type ProcessGroup } from "../locks.ts";
import { ShimCall } from "./call.ts";
import { makeEmpty } from "./empty-file.ts";

/* Models shim/lock.c. */

const stragglerMs = 10_000;
const endMs = 1000;
/** Of files that cannot be created because of the disk. */
const noRoom: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT", "EROFS"]);

interface Wanted {
  readonly kind: LockKind;
  readonly scope: "node" | "sandbox";
}

/** `lock_take` @throws ShimExit */
export async function lockTake(call: ShimCall): Promise<void> {
  if (call.command === "STATUS" || call.problem !== "") return;
  const isGc = call.command === "GC";
  const { kernel } = world();
  const node = kernel.locks.file(openStateDir(call));
  if (isGc) noteBusy(call);
  await waitFor(call, node, { kind: isGc ? "exclusive" : "shared", scope: "node" });
  if (isGc) {
    call.excluded = node;
    return;
  }
  const sandbox = await lockSandbox(call);
  if (sandbox === undefined) {
    await waitFor(call, node, { kind: "exclusive", scope: "node" });
    node.tryInherited(new InheritedLock(node, call.process));
    return;
  }
  call.lock = sandbox;
  await awaitStragglers(call, sandbox);
}

/** `note_busy` */
function noteBusy(call: ShimCall): void {
  const { disk, kernel } = world();
  const isBusy = (name: string): boolean =>
    kernel.locks.file(disk.stat(`${call.stateDir}/${name}`).ino).holders.length > 0;
  const names = disk.list(call.stateDir).map(([name]) => name);
  const locks = names.filter((name) => name.endsWith(".lock") && isBusy(name));
  call.busy = locks.map((name) => name.slice(0, -".lock".length));
}

/** `lock_share`: lets other operations run beside the rest of a GC. */
export async function lockShare(call: ShimCall): Promise<void> {
  const node = call.excluded;
  call.excluded = undefined;
  if (node !== undefined) await waitFor(call, node, { kind: "shared", scope: "node" });
}

/**
 * `straggler_note`: names the delegate's process group in the lock file.
 * @returns why it cannot
 */
export function stragglerNote(
  call: ShimCall,
  group: ProcessGroup | undefined,
): NodeJS.ErrnoException | undefined {
  const { lock } = call;
  if (lock === undefined) return group && Object.assign(new Error(), { code: "ENOSPC" });
  lock.group = undefined;
  try {
    if (group === undefined) makeEmpty(call.lockFile);
    else world().disk.writeFile(call.lockFile, "2");
    lock.group = group;
    return undefined;
  } catch (error) {
    if (!call.process.isAlive) throw error;
    return error as NodeJS.ErrnoException;
  }
}

/** `release`: removes the lock file unless delegates still hold it. */
export function release(call: ShimCall): void {
  const { lock, inherited, process } = call;
  if (lock === undefined || inherited === undefined) return;
  inherited.close(process);
  try {
    if (!lock.isInherited) world().disk.unlink(call.lockFile);
  } catch {
    // plexusd sweeps what remains.
  }
  lock.unlock(call);
}

/**
 * `lock_other`: locks another sandbox for a delegate that detaches it.
 * @returns a call of that sandbox, without a lock where there is no room; undefined while it is in use
 */
export function lockOther(call: ShimCall, containerId: string): ShimCall | undefined {
  const { process, runtime, stdin } = call;
  const env = { ...call.env, CNI_CONTAINERID: containerId };
  const other = new ShimCall({ env, stdin }, { process, runtime });
  const { disk, kernel } = world();
  try {
    if (!disk.exists(other.lockFile)) makeEmpty(other.lockFile);
  } catch (error) {
    if (!process.isAlive) throw error;
    return other;
  }
  const file = kernel.locks.file(disk.stat(other.lockFile).ino);
  if (!file.tryLock(other, "exclusive")) return undefined;
  other.lock = file;
  other.inherited = new InheritedLock(file, process);
  if (file.tryInherited(other.inherited)) return other;
  release(other);
  return undefined;
}

/**
 * `lock_try`: locks the call's own sandbox without waiting.
 * @returns the call with its lock; undefined while another operation on it, or a GC, runs
 */
export function lockTry(call: ShimCall): ShimCall | undefined {
  const node = world().kernel.locks.file(openStateDir(call));
  if (!node.tryLock(call, "shared")) return undefined;
  const locked = lockOther(call, call.containerId);
  if (locked === undefined) node.unlock(call);
  return locked;
}

/** `wait_for` @throws ShimExit with code 11 after the limit */
async function waitFor(call: ShimCall, file: LockedFile, { kind, scope }: Wanted): Promise<void> {
  if (file.tryLock(call, kind)) return;
  const { schedule } = world();
  world().note(() => `${call.name}: waits for the lock of the ${scope}`);
  const limitMs = call.settingMs("PLEXUS_LOCK_MS", 60_000);
  const patienceUs = call.settingMs("PLEXUS_STRAGGLER_MS", stragglerMs) * 1000;
  const deadline = schedule.nowUs + limitMs * 1000;
  let next = schedule.nowUs + patienceUs;
  while (!file.tryLock(call, kind)) {
    if (schedule.nowUs >= deadline)
      call.fail(
        CniErrorCode.TryAgainLater,
        `another operation on this ${scope} is still running: it has held its lock for ${limitMs} ms`,
      );
    const isImpatient = schedule.nowUs >= next;
    // Shims mark the lock files of sandboxes only.
    if (isImpatient && scope === "sandbox") endAbandoned(file);
    await file.released(isImpatient ? schedule.nowUs : Math.min(deadline, next));
    if (isImpatient) next = schedule.nowUs + patienceUs;
  }
}

/** `end_holders` without a group: kills the shims whose runtime was killed. */
function endAbandoned(file: LockedFile): void {
  for (const { process, runtime } of file.holders) {
    if (runtime.isAlive) continue;
    world().note(() => `an abandoned ${process.name} is killed`);
    world().schedule.kill(process);
  }
}

/** `lock` for the sandbox's file. @returns undefined if the disk is full or read-only */
async function lockSandbox(call: ShimCall): Promise<LockedFile | undefined> {
  const { disk, kernel } = world();
  for (;;) {
    const inode = openLockFile(call);
    if (inode === undefined) return undefined;
    const file = kernel.locks.file(inode);
    await waitFor(call, file, { kind: "exclusive", scope: "sandbox" });
    if (disk.lstat(call.lockFile)?.ino === inode) return file;
    file.unlock(call);
  }
}

/** Opens or creates the state directory. @returns its inode @throws ShimExit */
function openStateDir(call: ShimCall): number {
  const { disk } = world();
  try {
    if (!disk.exists(call.stateDir)) disk.mkdir(call.stateDir, 0o700);
    return disk.stat(call.stateDir).ino;
  } catch (error) {
    return cannotLock(call, call.stateDir, error);
  }
}

/** Opens or creates the file. @returns its inode; undefined without room @throws ShimExit */
function openLockFile(call: ShimCall): number | undefined {
  const { disk } = world();
  try {
    const found = disk.lstat(call.lockFile);
    if (found !== undefined) return found.ino;
    makeEmpty(call.lockFile);
    return disk.stat(call.lockFile).ino;
  } catch (error) {
    if (noRoom.has((error as { code?: unknown }).code)) return undefined;
    return cannotLock(call, call.lockFile, error);
  }
}

function cannotLock(call: ShimCall, path: string, error: unknown): never {
  if (!call.process.isAlive) throw error;
  return call.fail(CniErrorCode.IoFailure, `cannot lock ${path}: ${String(error)}`);
}

/** `await_stragglers` */
async function awaitStragglers(call: ShimCall, lock: LockedFile): Promise<void> {
  const own = new InheritedLock(lock, call.process);
  call.inherited = own;
  const patienceMs = call.settingMs("PLEXUS_STRAGGLER_MS", stragglerMs);
  if ((await isHeld(lock, own, patienceMs)) && lock.group !== undefined) {
    world().note(() => `${call.name}: kills what an earlier call has left running`);
    lock.group.kill();
    await isHeld(lock, own, endMs);
  }
  stragglerNote(call, undefined);
}

/** `is_held`: waits for the inherited lock. @returns whether other processes hold it still */
async function isHeld(lock: LockedFile, own: InheritedLock, patienceMs: number): Promise<boolean> {
  const { schedule } = world();
  const deadline = schedule.nowUs + patienceMs * 1000;
  while (!lock.tryInherited(own)) {
    if (schedule.nowUs >= deadline) return true;
    await lock.released(deadline);
  }
  return false;
}
