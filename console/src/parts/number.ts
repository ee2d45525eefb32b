// Numbers that people type: with a point or, as many write them, with a comma.

/** The number that was typed; `NaN` where it is none. */
export const typedNumber = (text: string): number => (text.trim() === "" ? Number.NaN : Number(text.trim().replace(",", ".")));

/** The number that was typed, which is to be within bounds; `what` names it where it is not. */
export function typedNumberIn(text: string, what: string, least: number, most: number): number {
  const value = typedNumber(text);
  if (!(value >= least && value <= most)) throw new Error(`${what} is a number from ${least} to ${most}`);
  return value;
}
