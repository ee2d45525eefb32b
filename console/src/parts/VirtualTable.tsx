// A table of any length, of which only the rows in sight are in the document. It is an ARIA grid written out by hand: a row of
// react-aria costs the browser about ten times as much (docs/adr/0034-virtual-tables-by-hand.md).
import { memo, useCallback, useId, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent, type RefObject, type UIEvent } from "react";

import { ArrowFocus } from "./arrow-focus";
import { nextSorting, type ColumnOf, type Sorting } from "./columns";
import { positionAfter, type Position } from "./grid-keys";
import { Icon } from "./Icon";
import shared from "./Table.module.css";
import styles from "./VirtualTable.module.css";

interface Props<T> {
  label: string;
  columns: ColumnOf<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  onOpen?: (row: T) => void;
  sorted?: Sorting;
  onSort: (sorting: Sorting) => void;
  selected?: ReadonlySet<string>;
  onSelect?: (selected: ReadonlySet<string>) => void;
  /** The end is near: time to load more. Called again and again while it is. */
  onNearEnd?: () => void;
  /** More rows can be loaded, so that their number is not known. */
  hasMore?: boolean;
}

/** The height of a row in `rem`: it grows with the text. */
const ROW_REM = 2.5;
/** This many rows before and after those in sight are in the document too. */
const SPARE = 3;
/** The rows in the document change only after so many have been scrolled by. */
const STEP = 4;
/** This many pixels before the end, it asks for more. */
const NEAR_END = 1200;

export function VirtualTable<T extends object>({ label, columns, rows, keyOf, onOpen, sorted, onSort, selected, onSelect, onNearEnd, hasMore }: Props<T>) {
  const grid = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLSpanElement>(null);
  const id = useId();
  const { first, last, rowHeight, measure, page } = useWindow(grid, rows.length);
  const [chosen, setActive] = useState(0);
  const active = Math.min(chosen, rows.length - 1);
  const focusNext = useRef<Position>(undefined);
  const anchor = useRef<number>(undefined);
  const boxes = onSelect ? 1 : 0;

  const elementAt = ({ row, cell }: Position): HTMLElement | null => {
    const element = grid.current?.querySelector<HTMLElement>(`[data-index="${row}"]`);
    const inside = cell < 0 ? element : element?.querySelector<HTMLElement>(`[data-cell="${cell}"]`);
    return (cell >= boxes && inside?.querySelector<HTMLElement>("a, button")) || (inside ?? null);
  };
  useLayoutEffect(() => {
    if (!focusNext.current) return;
    const element = elementAt(focusNext.current);
    focusNext.current = undefined;
    element?.focus({ preventScroll: true });
  });

  const moveTo = (position: Position) => {
    const scroller = grid.current;
    if (!scroller) return;
    focusNext.current = position;
    if (position.row >= 0) {
      // The head covers the first row's height of what is in sight.
      const top = position.row * rowHeight;
      const inSight = scroller.clientHeight - 2 * rowHeight;
      if (top < scroller.scrollTop) scroller.scrollTop = top;
      if (top > scroller.scrollTop + inSight) scroller.scrollTop = top - inSight;
      setActive(position.row);
    }
    measure();
    elementAt(position)?.focus({ preventScroll: true });
  };
  const select = (from: number, to: number, isOn: boolean) => {
    const next = new Set(selected);
    for (const row of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) isOn ? next.add(keyOf(row)) : next.delete(keyOf(row));
    onSelect?.(next);
  };
  const isSelected = (index: number): boolean => selected?.has(keyOf(rows[index] as T)) ?? false;
  const toggle = (index: number, isRange = false) => {
    if (index < 0) return onSelect?.(selected?.size === rows.length ? new Set() : new Set(rows.map(keyOf)));
    select(isRange ? (anchor.current ?? index) : index, index, isRange || !isSelected(index));
    anchor.current = index;
  };
  const sortBy = (cell: number) => {
    const column = columns[cell - boxes];
    if (column?.sort) onSort(nextSorting(sorted, column.id));
  };
  const act = (position: Position) => {
    if (position.row < 0) sortBy(position.cell);
    else onOpen?.(rows[position.row] as T);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const position = positionOf(event.target as Element);
    if (!position || event.altKey) return;
    const isControl = event.ctrlKey || event.metaKey;
    const isOnControl = (event.target as Element).matches("a, button");
    if (event.key === "Tab") {
      // From here the browser goes on to what stands before or after the grid.
      return (event.shiftKey ? grid : end).current?.focus({ preventScroll: true });
    }
    if (event.key === "Enter" && !isOnControl) act(position);
    else if (event.key === " " && onSelect && (position.row >= 0 || position.cell === 0)) toggle(position.row, event.shiftKey);
    else if (event.key === " " && position.row < 0) act(position);
    else if (event.key === "a" && isControl && onSelect) onSelect(new Set(rows.map(keyOf)));
    else if (event.key === "Escape" && onSelect && selected && selected.size > 0) onSelect(new Set());
    else {
      const hasHead = boxes > 0 || columns.some((column) => column.sort);
      const next = positionAfter(event.key, isControl, position, { rows: rows.length, cells: columns.length + boxes, page, hasHead });
      if (!next) return;
      if (event.shiftKey && onSelect && next.row !== position.row && next.row >= 0) {
        anchor.current ??= position.row;
        select(anchor.current, next.row, true);
      } else if (!event.shiftKey) anchor.current = undefined;
      moveTo(next);
    }
    event.preventDefault();
  };
  const onClick = (event: MouseEvent) => {
    const target = event.target as Element;
    const position = positionOf(target);
    if (!position || target.closest("a, button")) return;
    if (onSelect && position.cell === 0) return toggle(position.row, event.shiftKey);
    // Whoever marks a text to copy it does not open the row.
    if (getSelection()?.isCollapsed !== false) act(position);
  };
  const onScroll = (event: UIEvent) => {
    measure();
    const { scrollTop, clientHeight, scrollHeight } = event.currentTarget;
    if (scrollTop + clientHeight > scrollHeight - NEAR_END) onNearEnd?.();
  };

  const shown = rows.slice(first, last).map((row, index) => ({ row, index: first + index }));
  // The row with the focus stays, however far one scrolls.
  if (active >= 0 && (active < first || active >= last)) shown.push({ row: rows[active] as T, index: active });
  const template = useMemo(() => templateOf(columns, boxes > 0), [columns, boxes]);
  return (
    <ArrowFocus value>
      {/* The scroller itself has the focus only on the way out of it. */}
      <div
        ref={grid}
        role="grid"
        aria-label={label}
        aria-rowcount={hasMore ? -1 : rows.length + 1}
        aria-colcount={columns.length + boxes}
        aria-multiselectable={onSelect ? true : undefined}
        tabIndex={-1}
        className={styles.grid}
        style={{ "--columns": template.columns, "--least": template.least, "--row": `${rowHeight}px` } as object}
        onKeyDown={onKeyDown}
        onClick={onClick}
        onScroll={onScroll}
        onFocus={(event) => {
          const position = positionOf(event.target);
          if (position && position.row >= 0) setActive(position.row);
        }}
      >
        <div role="rowgroup" className={styles.head}>
          <Head columns={columns} sorted={sorted} allSelected={onSelect && (selected?.size === 0 ? false : selected?.size === rows.length ? true : "mixed")} />
        </div>
        <div role="rowgroup" className={styles.body} style={{ height: rows.length * rowHeight }}>
          {shown.map(({ row, index }) => (
            <BodyRow
              key={keyOf(row)}
              id={id}
              row={row}
              index={index}
              columns={columns as ColumnOf<object>[]}
              isActive={index === active}
              isSelected={onSelect ? (selected?.has(keyOf(row)) ?? false) : undefined}
              opens={onOpen !== undefined}
            />
          ))}
        </div>
      </div>
      <span ref={end} tabIndex={-1} />
    </ArrowFocus>
  );
}

/** The rows to keep in the document, as the grid is scrolled now. */
function useWindow(grid: RefObject<HTMLDivElement | null>, count: number) {
  const rowHeight = useMemo(() => Math.round(ROW_REM * Number.parseFloat(getComputedStyle(document.documentElement).fontSize)), []);
  const [first, setFirst] = useState(0);
  const [height, setHeight] = useState(640);
  const measure = useCallback(() => {
    const top = grid.current?.scrollTop ?? 0;
    setFirst(Math.max(0, Math.floor((Math.floor(top / rowHeight) - SPARE) / STEP) * STEP));
  }, [grid, rowHeight]);
  useLayoutEffect(() => {
    const element = grid.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, [grid]);
  // Fewer rows than before: the browser has scrolled back by itself.
  useLayoutEffect(measure, [measure, count]);
  const page = Math.max(1, Math.floor(height / rowHeight) - 1);
  return { first: Math.min(first, Math.max(0, count - 1)), last: Math.min(count, first + page + 2 * SPARE + STEP + 1), rowHeight, measure, page };
}

function positionOf(target: Element): Position | undefined {
  const row = target.closest<HTMLElement>("[data-index]");
  if (!row) return undefined;
  return { row: Number(row.dataset.index), cell: Number(target.closest<HTMLElement>("[data-cell]")?.dataset.cell ?? -1) };
}

/** The widths of the columns, for CSS, and the least width of a row. */
function templateOf<T>(columns: ColumnOf<T>[], hasBoxes: boolean): { columns: string; least: string } {
  const leastOf = (column: ColumnOf<T>) => (column.long ? 9 : 6.5);
  const widths = columns.map((column) => (typeof column.width === "number" ? `${column.width}px` : `minmax(${leastOf(column)}rem, ${column.width ?? "1fr"})`));
  const least = columns.map((column) => (typeof column.width === "number" ? `${column.width}px` : `${leastOf(column)}rem`));
  return { columns: [...(hasBoxes ? ["2.75rem"] : []), ...widths].join(" "), least: `calc(${[...(hasBoxes ? ["2.75rem"] : []), ...least].join(" + ")})` };
}

const cellClass = (column: ColumnOf<object>) => `${shared.cell} ${styles.cell} ${column.numeric ? shared.numeric : ""}`;

function Box({ isOn, labelledBy, label }: { isOn: boolean | "mixed"; labelledBy?: string; label: string }) {
  return (
    <span role="checkbox" aria-checked={isOn} aria-label={label} aria-labelledby={labelledBy} id={labelledBy?.split(" ")[0]} className={shared.select} data-selected={isOn || undefined}>
      <span className={shared.mark} aria-hidden="true">
        <Icon name="check" size={12} />
      </span>
    </span>
  );
}

function Head<T>({ columns, sorted, allSelected }: { columns: ColumnOf<T>[]; sorted: Sorting | undefined; allSelected: boolean | "mixed" | undefined }) {
  const boxes = allSelected === undefined ? 0 : 1;
  return (
    <div role="row" aria-rowindex={1} data-index={-1} className={styles.row}>
      {allSelected !== undefined && (
        <div role="columnheader" aria-colindex={1} data-cell={0} tabIndex={-1} className={`${shared.cell} ${styles.cell} ${styles.box}`}>
          <Box isOn={allSelected} label="Select all" />
        </div>
      )}
      {columns.map((column, index) => {
        const direction = sorted?.column === column.id ? sorted.direction : undefined;
        return (
          <div
            key={column.id}
            role="columnheader"
            aria-colindex={index + 1 + boxes}
            aria-sort={column.sort ? (direction ?? "none") : undefined}
            data-cell={index + boxes}
            data-allows-sorting={column.sort ? "" : undefined}
            tabIndex={-1}
            className={cellClass(column as ColumnOf<object>)}
          >
            <span className={shared.head}>
              {column.name}
              {direction && <Icon name={direction === "ascending" ? "up" : "down"} size={12} />}
            </span>
          </div>
        );
      })}
    </div>
  );
}

interface RowProps {
  id: string;
  row: object;
  index: number;
  columns: ColumnOf<object>[];
  isActive: boolean;
  isSelected: boolean | undefined;
  opens: boolean;
}

/** Made again only when something of it has changed. */
const BodyRow = memo(function BodyRow({ id, row, index, columns, isActive, isSelected, opens }: RowProps) {
  const boxes = isSelected === undefined ? 0 : 1;
  const nameId = `${id}-${index}`;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      data-index={index}
      data-opens={opens ? "" : undefined}
      data-selected={isSelected || undefined}
      tabIndex={isActive ? 0 : -1}
      className={`${shared.row} ${styles.row} ${styles.placed}`}
      style={{ top: `calc(${index} * var(--row))` }}
    >
      {isSelected !== undefined && (
        <div role="gridcell" aria-colindex={1} data-cell={0} tabIndex={-1} className={`${shared.cell} ${styles.cell} ${styles.box}`}>
          <Box isOn={isSelected} label="Select" labelledBy={`${nameId}-box ${nameId}`} />
        </div>
      )}
      {columns.map((column, cell) => (
        <div key={column.id} id={cell === 0 ? nameId : undefined} role={cell === 0 ? "rowheader" : "gridcell"} aria-colindex={cell + 1 + boxes} data-cell={cell + boxes} tabIndex={-1} className={cellClass(column)}>
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
});
