// The table of every list: sortable, by keyboard (arrows between cells, Enter opens a row), and virtual once it is long.
import { useMemo, useState, useSyncExternalStore, type ReactNode } from "react";
import { Cell, Column, Row, Table as AriaTable, TableBody, TableHeader } from "react-aria-components/Table";

import { Button } from "./Button";
import type { ColumnOf, Sorting } from "./columns";
import { Icon } from "./Icon";
import styles from "./Table.module.css";
import { VirtualTable } from "./VirtualTable";

export type { ColumnOf } from "./columns";

interface TableProps<T> {
  label: string;
  columns: ColumnOf<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  /** Opens a row, by click or Enter. */
  onOpen?: (row: T) => void;
  empty?: ReactNode;
  /** Virtual whatever its length: for rows that come and go while somebody waits for them. */
  virtual?: boolean;
  /** Keys of the selected rows, where rows can be selected; in virtual tables only. */
  selected?: ReadonlySet<string>;
  onSelect?: (selected: ReadonlySet<string>) => void;
  /** The end of a virtual table is near: time to load more. Called again and again while it is. */
  onNearEnd?: () => void;
  /** More rows can be loaded. */
  hasMore?: boolean;
}

/** From this many rows on, only those in sight are in the document. */
const VIRTUAL_FROM = 100;

function compare(one: string | number, other: string | number): number {
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
}

const narrow = matchMedia("(max-width: 48rem)");
const watchNarrow = (listener: () => void) => {
  narrow.addEventListener("change", listener);
  return () => narrow.removeEventListener("change", listener);
};

export function Table<T extends object>({ label, columns: all, rows, keyOf, onOpen, empty, virtual, selected, onSelect, onNearEnd, hasMore }: TableProps<T>) {
  const isNarrow = useSyncExternalStore(watchNarrow, () => narrow.matches);
  const columns = useMemo(() => (isNarrow ? all.filter((column) => !column.optional) : all), [all, isNarrow]);
  const [sorting, setSorting] = useState<Sorting>();
  const sorted = useMemo(() => {
    const by = columns.find((column) => column.id === sorting?.column)?.sort;
    if (!by) return rows;
    const direction = sorting?.direction === "descending" ? -1 : 1;
    return rows.toSorted((one, other) => direction * compare(by(one), by(other)));
  }, [rows, columns, sorting]);

  if (rows.length === 0 && empty) return <>{empty}</>;
  if (virtual || rows.length >= VIRTUAL_FROM) {
    return <VirtualTable label={label} columns={columns} rows={sorted} keyOf={keyOf} onOpen={onOpen} sorted={sorting} onSort={setSorting} selected={selected} onSelect={onSelect} onNearEnd={onNearEnd} hasMore={hasMore} />;
  }
  return (
    <div className={styles.frame}>
      <AriaTable
        aria-label={label}
        className={styles.table}
        sortDescriptor={sorting}
        onSortChange={({ column, direction }) => setSorting({ column: String(column), direction })}
        onRowAction={onOpen && ((key) => onOpen(rows.find((row) => keyOf(row) === key) as T))}
      >
        <TableHeader>
          {columns.map((column, index) => (
            <Column key={column.id} id={column.id} isRowHeader={index === 0} allowsSorting={column.sort !== undefined} className={cellClass(column)}>
              {({ sortDirection }) => (
                <span className={styles.head}>
                  {column.name}
                  {sortDirection && <Icon name={sortDirection === "ascending" ? "up" : "down"} size={12} />}
                </span>
              )}
            </Column>
          ))}
        </TableHeader>
        <TableBody>
          {sorted.map((row) => (
            <Row key={keyOf(row)} id={keyOf(row)} className={styles.row} data-opens={onOpen ? "" : undefined}>
              {columns.map((column) => (
                <Cell key={column.id} className={cellClass(column)}>
                  {column.cell(row)}
                </Cell>
              ))}
            </Row>
          ))}
        </TableBody>
      </AriaTable>
    </div>
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
