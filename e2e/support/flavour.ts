/** Who serves the calls of a test run: plexusd, or the compiled plexus-standalone without any plexusd. */
const flavours = ["daemon", "standalone"] as const;
export type Flavour = (typeof flavours)[number];

/** The variable FLAVOUR, else `daemon`. */
export const flavour: Flavour = readFlavour(process.env.FLAVOUR);

/** @throws Error naming a value that is no flavour */
function readFlavour(value = "daemon"): Flavour {
  const found = flavours.find((each) => each === value);
  if (found === undefined)
    throw new Error(`FLAVOUR is ${JSON.stringify(value)}: use ${flavours.join(" or ")}`);
  return found;
}
