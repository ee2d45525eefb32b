// Sends what is meant for many objects in as many requests as it takes.

/** As many objects as one request can label. */
export const AT_ONCE = 1000;

export interface Refusal {
  objectId: string;
  message: string;
}

/** Sends one part after the other, says after each for how many objects it was sent, and returns what was refused. */
export async function inParts(ids: readonly string[], send: (part: string[]) => Promise<{ index: number; message: string }[]>, onProgress: (sent: number) => void): Promise<Refusal[]> {
  const refusals: Refusal[] = [];
  for (let start = 0; start < ids.length; start += AT_ONCE) {
    const part = ids.slice(start, start + AT_ONCE);
    const refused = await send(part);
    refusals.push(...refused.map(({ index, message }) => ({ objectId: part[index] ?? "", message })));
    onProgress(start + part.length);
  }
  return refusals;
}
