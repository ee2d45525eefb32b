// The table of every list: sortable, by keyboard (arrows between cells, Enter opens a row), and virtual once it is long.
import { useMemo, useState, useSyncExternalStore, type ReactNode, type UIEvent } from "react";
import { Checkbox as AriaCheckbox } from "react-aria-components/Checkbox";
import { TableLayout, Virtualizer } from "react-aria-components/Virtualizer";
import { Cell, Column, Row, Table as AriaTable, TableBody, TableHeader, type SortDescriptor } from "react-aria-components/Table";

import { Button } from "./Button";
import { Icon } from "./Icon";
import styles from "./Table.module.css";

export interface ColumnOf<T> {
  id: string;
  name: string;
  cell: (row: T) => ReactNode;
  /** The value to sort by; without it the column cannot be sorted. With `onSort` only its presence counts. */
  sort?: (row: T) => string | number;
  /** Figures stand at the right, so that their digits line up. */
  numeric?: boolean;
  /** A share of the width in `fr`, or a fixed width in pixels. */
  width?: `${number}fr` | number;
  /** Holds text of any length, such as object ids: it may break anywhere. */
  long?: boolean;
  /** Dropped first where the screen is narrow. */
  optional?: boolean;
}

interface TableProps<T> {
  label: string;
  columns: ColumnOf<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  /** Opens a row, by click or Enter. */
  onOpen?: (row: T) => void;
  /** Sorting by the server. Without it the rows at hand are sorted here. */
  sortedBy?: SortDescriptor;
  onSort?: (sort: SortDescriptor) => void;
  empty?: ReactNode;
  /** Keys of the selected rows, where rows can be selected. */
  selected?: ReadonlySet<string>;
  onSelect?: (selected: ReadonlySet<string>) => void;
  /** Row height in pixels in a virtual table. */
  rowHeight?: number;
  /** The end of a virtual table is near: time to load more. Called again and again while it is. */
  onNearEnd?: () => void;
}

/** From this many rows on, only those in sight are in the document. */
const VIRTUAL_FROM = 100;
/** This many pixels before its end, a virtual table asks for more. */
const NEAR_END = 1200;
/** The width of the column with the boxes that select rows. */
const BOX_WIDTH = 44;

function compare(one: string | number, other: string | number): number {
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
}

const narrow = matchMedia("(max-width: 48rem)");
const watchNarrow = (listener: () => void) => {
  narrow.addEventListener("change", listener);
  return () => narrow.removeEventListener("change", listener);
};

export function Table<T extends object>({ label, columns: all, rows, keyOf, onOpen, sortedBy, onSort, empty, selected, onSelect, rowHeight = 40, onNearEnd }: TableProps<T>) {
  const isNarrow = useSyncExternalStore(watchNarrow, () => narrow.matches);
  const columns = useMemo(() => (isNarrow ? all.filter((column) => !column.optional) : all), [all, isNarrow]);
  const [localSort, setLocalSort] = useState<SortDescriptor>();
  const sort = onSort ? sortedBy : localSort;
  const sorted = useMemo(() => {
    const by = columns.find((column) => column.id === localSort?.column)?.sort;
    if (onSort || !by) return rows;
    const direction = localSort?.direction === "descending" ? -1 : 1;
    return rows.toSorted((one, other) => direction * compare(by(one), by(other)));
  }, [rows, columns, localSort, onSort]);

  if (rows.length === 0 && empty) return <>{empty}</>;
  const virtual = rows.length >= VIRTUAL_FROM;
  const rowOf = (row: T) => (
    <Row key={keyOf(row)} id={keyOf(row)} className={styles.row} data-opens={onOpen ? "" : undefined}>
      {onSelect && (
        <Cell className={`${styles.cell} ${styles.box}`}>
          <SelectionBox />
        </Cell>
      )}
      {columns.map((column) => (
        <Cell key={column.id} className={cellClass(column)}>
          {column.cell(row)}
        </Cell>
      ))}
    </Row>
  );
  const table = (
    <AriaTable
      aria-label={label}
      className={`${styles.table} ${virtual ? styles.virtual : ""}`}
      sortDescriptor={sort}
      onSortChange={onSort ?? setLocalSort}
      selectionMode={onSelect ? "multiple" : "none"}
      selectionBehavior="toggle"
      selectedKeys={selected}
      onSelectionChange={(keys) => onSelect?.(keys === "all" ? new Set(rows.map(keyOf)) : new Set([...keys].map(String)))}
      onRowAction={onOpen && ((key) => onOpen(rows.find((row) => keyOf(row) === key) as T))}
    >
      <TableHeader>
        {onSelect && (
          <Column id="select" width={virtual ? BOX_WIDTH : undefined} minWidth={BOX_WIDTH} className={`${styles.cell} ${styles.box}`}>
            <SelectionBox />
          </Column>
        )}
        {columns.map((column, index) => (
          <Column key={column.id} id={column.id} isRowHeader={index === 0} allowsSorting={column.sort !== undefined} width={virtual ? column.width : undefined} className={cellClass(column)}>
            {({ sortDirection }) => (
              <span className={styles.head}>
                {column.name}
                {sortDirection && <Icon name={sortDirection === "ascending" ? "up" : "down"} size={12} />}
              </span>
            )}
          </Column>
        ))}
      </TableHeader>
      {/* A long table is made by items: a row that was there before is not made again when more rows come. */}
      {virtual ? (
        <TableBody items={sorted} dependencies={[columns]}>
          {rowOf}
        </TableBody>
      ) : (
        <TableBody>{sorted.map(rowOf)}</TableBody>
      )}
    </AriaTable>
  );
  const nearEnd = (event: UIEvent) => {
    const { scrollTop, clientHeight, scrollHeight } = event.target as HTMLElement;
    if (virtual && scrollTop + clientHeight > scrollHeight - NEAR_END) onNearEnd?.();
  };
  return (
    <div className={styles.frame} onScrollCapture={onNearEnd && nearEnd}>
      {virtual ? (
        <Virtualizer layout={TableLayout} layoutOptions={{ rowHeight, headingHeight: 36 }}>
          {table}
        </Virtualizer>
      ) : (
        table
      )}
    </div>
  );
}

/** The box of a row, and in the head that of all rows. */
function SelectionBox() {
  return (
    <AriaCheckbox slot="selection" className={styles.select}>
      <span className={styles.mark} aria-hidden="true">
        <Icon name="check" size={12} />
      </span>
    </AriaCheckbox>
  );
}

const cellClass = <T,>(column: ColumnOf<T>) =>
  `${styles.cell} ${column.numeric ? styles.numeric : ""} ${column.long ? styles.long : ""}`;

/** Asks for the next page of a list. */
export function LoadMore({ hasMore, isLoading, onLoad, shown }: { hasMore: boolean; isLoading: boolean; onLoad: () => void; shown: string }) {
  return (
    <div className={styles.more}>
      <span role="status">{shown}</span>
      {hasMore && (
        <Button onPress={() => !isLoading && onLoad()}>{isLoading ? "Loading…" : "Load more"}</Button>
      )}
    </div>
  );
}
