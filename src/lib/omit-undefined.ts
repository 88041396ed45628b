/** The type of {@link omitUndefined}'s result: a member that may be undefined may be absent instead. */
export type OmitUndefined<T extends object> = {
  [K in keyof T as undefined extends T[K] ? never : K]: T[K];
} & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** A copy without the members whose value is undefined, as exact optional properties want it. */
export function omitUndefined<T extends object>(object: T): OmitUndefined<T> {
  const present = Object.entries(object).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as OmitUndefined<T>;
}
