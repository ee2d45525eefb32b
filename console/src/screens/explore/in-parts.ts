// Sends what is meant for many objects in as many requests as it takes.

/** As many objects as one request can label. */
export const AT_ONCE = 1000;

export interface Refusal {
  objectId: string;
  message: string;
}

export interface Progress {
  /** For how many objects it was done: those that were sent, without those that were refused. */
  done: number;
  refused: readonly Refusal[];
}

/**
 * Sends one part after the other, and says after each how far it is. Where a part fails nothing more is sent, and what was said last is what has
 * come of the parts before it.
 */
export async function inParts(ids: readonly string[], send: (part: string[]) => Promise<{ index: number; message: string }[]>, onProgress: (progress: Progress) => void): Promise<Progress> {
  let progress: Progress = { done: 0, refused: [] };
  for (let start = 0; start < ids.length; start += AT_ONCE) {
    const part = ids.slice(start, start + AT_ONCE);
    const refused = (await send(part)).map(({ index, message }) => ({ objectId: part[index] ?? "", message }));
    progress = { done: progress.done + part.length - refused.length, refused: [...progress.refused, ...refused] };
    onProgress(progress);
  }
  return progress;
}
