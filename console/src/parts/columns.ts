// What tables show of a row, and in what order.
import type { ReactNode } from "react";

export interface ColumnOf<T> {
  id: string;
  name: string;
  cell: (row: T) => ReactNode;
  /** The value to sort by; without it the column cannot be sorted. */
  sort?: (row: T) => string | number;
  /** Figures stand at the right, so that their digits line up. */
  numeric?: boolean;
  /** A share of the width in `fr`, or a fixed width in pixels; counts in virtual tables only. */
  width?: `${number}fr` | number;
  /** Holds text of any length, such as object ids: it may break anywhere. */
  long?: boolean;
  /** Dropped first where the screen is narrow. */
  optional?: boolean;
}

/** The column that rows are sorted by. */
export interface Sorting {
  column: string;
  direction: "ascending" | "descending";
}

/** What a click on the head of a column sorts by next. */
export const nextSorting = (sorted: Sorting | undefined, column: string): Sorting => ({
  column,
  direction: sorted?.column === column && sorted.direction === "ascending" ? "descending" : "ascending",
});
