/**
 * Refuses to run under another Node than the pinned one: `npm ci --ignore-scripts` leaves no
 * `node_modules/.bin/node`, and everything would then silently run on the system's Node.
 */
export function setup(): void {
  const major = Number(process.versions.node.split(".")[0]);
  if (major !== 24) {
    throw new Error(
      `tests run on Node ${process.version}, but the project pins Node 24: run \`npm ci\``,
    );
  }
}
