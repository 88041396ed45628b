import type { CallContext } from "#engine/call/call-context.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { JsonObject } from "#lib/json.ts";
import {
  cniDeviceInfoPath,
  deviceInfoCapability,
  dpDeviceInfoPath,
  parseDeviceInfo,
} from "#npwg/device-info.ts";

/*
 * Device information (device-info specification 1.1): what a device plugin wrote of a device is
 * copied for the attachment, whose plugins may read and change it, and is shown in the pod's
 * status. None of it fails a pod: the files are for others, and what is missing there is logged.
 */

/** Copies the device plugin's file before the attachment's plugins are executed. Never rejects. */
export async function provideDeviceInfo(
  ctx: CallContext,
  containerId: string,
  { device, ifName }: Pick<RecordedAttachment, "device" | "ifName">,
): Promise<void> {
  if (device === undefined || device.resourceName === "") return;
  const { resourceName, id: deviceId } = device;
  const to = cniDeviceInfoPath({ containerId, ifName });
  await tolerated(ctx, "the device information could not be copied", () =>
    ctx.deps.deviceInfo.copy(dpDeviceInfoPath({ resourceName, deviceId }), to),
  );
}

/** What the attachment's plugins or the device plugin wrote; undefined if nothing is usable. */
export async function readDeviceInfo(
  ctx: CallContext,
  containerId: string,
  attachment: Pick<RecordedAttachment, "device" | "capabilityArgs" | "ifName">,
): Promise<JsonObject | undefined> {
  if (!hasFile(attachment)) return undefined;
  return tolerated(ctx, "the device information is left out of the status", async () => {
    const path = cniDeviceInfoPath({ containerId, ifName: attachment.ifName });
    const text = await ctx.deps.deviceInfo.read(path);
    return text === undefined ? undefined : parseDeviceInfo(text, path);
  });
}

/** Removes a detached attachment's file. Never rejects: the sweep removes it later. */
export async function removeDeviceInfo(
  ctx: CallContext,
  containerId: string,
  attachment: RecordedAttachment,
): Promise<void> {
  if (!hasFile(attachment)) return;
  await tolerated(ctx, "the device information could not be removed", () =>
    ctx.deps.deviceInfo.remove(cniDeviceInfoPath({ containerId, ifName: attachment.ifName })),
  );
}

function hasFile(of: Pick<RecordedAttachment, "device" | "capabilityArgs">): boolean {
  return of.device !== undefined || of.capabilityArgs[deviceInfoCapability] !== undefined;
}

async function tolerated<T>(
  ctx: CallContext,
  message: string,
  work: () => T | Promise<T>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    ctx.logger.warn({ err: error }, message);
    return undefined;
  }
}
