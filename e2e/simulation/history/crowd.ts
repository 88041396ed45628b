import type { Random } from "../world/random.ts";
import type { Others } from "./others.ts";

const alone: Others = {
  ...{ hasTwoBootIds: false, uptimeMs: 60_000, second: undefined, mesh: undefined },
  ...{ hasDevices: false, isLong: false, isAgentBlind: false, mischief: [] },
};

/** Seldom: many pods start at once while the API server is busy, and nothing else goes wrong. */
export function drawCrowd(random: Random) {
  if (!random.chance(0.004)) return {};
  const pods = Array.from({ length: random.integer(8, 14) }, () => ({
    ...{ networks: [], edits: [], isSuccessor: false, lifeMs: undefined },
    startMs: random.integer(1, 1000),
  }));
  const busy = {
    ...({ kind: "API busy", fromMs: 1, forMs: random.integer(60_000, 300_000) } as const),
    ...{ atOnce: random.integer(1, 2), room: random.integer(2, 8) },
    costMs: random.duration(50, 8000),
  };
  // A process for one call does not know what others write.
  const others = { hasStandalone: false, hotPlug: false, others: alone } as const;
  const service = undefined;
  const statuses = { isStatic: false, changesStatuses: false };
  return { ...others, ...statuses, service, pods, isSwept: false, mischief: [busy] };
}
