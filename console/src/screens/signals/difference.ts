// What changed between two texts, word by word.

export interface Piece {
  text: string;
  change: "same" | "added" | "removed";
}

/** Above this many cells, the whole text counts as changed: nobody reads such a difference word by word. */
const MOST_CELLS = 4_000_000;

const wordsOf = (text: string): string[] => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

/** Lengths of the longest common subsequences of all suffixes. */
function commonLengths(one: string[], other: string[]): Uint32Array[] {
  const table = Array.from({ length: one.length + 1 }, () => new Uint32Array(other.length + 1));
  for (let row = one.length - 1; row >= 0; row--) {
    const here = table[row] as Uint32Array;
    const below = table[row + 1] as Uint32Array;
    for (let column = other.length - 1; column >= 0; column--) {
      here[column] = one[row] === other[column] ? (below[column + 1] as number) + 1 : Math.max(below[column] as number, here[column + 1] as number);
    }
  }
  return table;
}

/** Appends a word, joined to the piece before it where both have the same fate. */
function append(pieces: Piece[], text: string, change: Piece["change"]): void {
  const last = pieces.at(-1);
  if (last?.change === change) last.text += text;
  else pieces.push({ text, change });
}

/** Words that changed beside each other read better as one change than as many: spaces between them change with them. */
function joined(pieces: readonly Piece[]): Piece[] {
  const result: Piece[] = [];
  let removed = "";
  let added = "";
  const flush = () => {
    if (removed) result.push({ text: removed, change: "removed" });
    if (added) result.push({ text: added, change: "added" });
    removed = "";
    added = "";
  };
  pieces.forEach((piece, index) => {
    if (piece.change === "removed") removed += piece.text;
    else if (piece.change === "added") added += piece.text;
    else if (/^[^\S\n]+$/.test(piece.text) && (removed || added) && index + 1 < pieces.length) {
      removed += piece.text;
      added += piece.text;
    } else {
      flush();
      result.push(piece);
    }
  });
  flush();
  return result;
}

export function differenceOf(before: string, after: string): Piece[] {
  const one = wordsOf(before);
  const other = wordsOf(after);
  if (one.length * other.length > MOST_CELLS) return [{ text: before, change: "removed" }, { text: after, change: "added" }];
  const common = commonLengths(one, other);
  const pieces: Piece[] = [];
  let row = 0;
  let column = 0;
  while (row < one.length || column < other.length) {
    if (row < one.length && column < other.length && one[row] === other[column]) {
      append(pieces, one[row++] as string, "same");
      column++;
    } else if (row < one.length && (column === other.length || (common[row + 1]?.[column] ?? 0) >= (common[row]?.[column + 1] ?? 0))) {
      append(pieces, one[row++] as string, "removed");
    } else {
      append(pieces, other[column++] as string, "added");
    }
  }
  return joined(pieces);
}
