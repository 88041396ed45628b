/** An object type whose members that may be undefined are optional, and never undefined when present. */
export type WithoutUndefined<T extends object> = {
  [K in keyof T as undefined extends T[K] ? never : K]: T[K];
} & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** A copy of the object without the members that are undefined. */
export function omitUndefined<T extends object>(object: T): WithoutUndefined<T> {
  const members = Object.entries(object).filter(([, value]) => value !== undefined);
  return Object.fromEntries(members) as WithoutUndefined<T>;
}
