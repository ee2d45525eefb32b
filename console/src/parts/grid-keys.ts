// Where the keys of a grid lead: to another row, to a cell of it, or back to the row as a whole.

/** A row by its index, −1 is the head; a cell by its index, −1 is the row as a whole. */
export interface Position {
  row: number;
  cell: number;
}

export interface Extent {
  rows: number;
  cells: number;
  /** Rows that a page of the screen has. */
  page: number;
  /** Whether there is something to press in the head. */
  hasHead: boolean;
}

const within = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most);

/** The position that a key leads to, or nothing if the key is none of the grid's. */
export function positionAfter(key: string, isControl: boolean, { row, cell }: Position, { rows, cells, page, hasHead }: Extent): Position | undefined {
  const toRow = (next: number): Position => {
    const target = within(next, hasHead ? -1 : 0, rows - 1);
    // The head as a whole says nothing: its first cell does.
    return { row: target, cell: target < 0 ? Math.max(0, cell) : cell };
  };
  const toCell = (next: number): Position => ({ row, cell: within(next, row < 0 ? 0 : -1, cells - 1) });
  const isWhole = cell < 0 || isControl;
  switch (key) {
    case "ArrowDown":
      return toRow(row + 1);
    case "ArrowUp":
      return toRow(row - 1);
    case "PageDown":
      return toRow(row + page);
    case "PageUp":
      return toRow(Math.max(0, row - page));
    case "ArrowRight":
      return toCell(cell + 1);
    case "ArrowLeft":
      return toCell(cell - 1);
    case "Home":
      return isWhole ? toRow(0) : toCell(0);
    case "End":
      return isWhole ? toRow(rows - 1) : toCell(cells - 1);
    default:
      return undefined;
  }
}
